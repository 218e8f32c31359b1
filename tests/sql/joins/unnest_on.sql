CREATE TABLE baskets (id INT, tags ARRAY<STRING>, items ARRAY<ROW<n STRING, c INT>>, stock MAP<STRING, INT>) WITH ('connector' = 'filesystem', 'path' = '${DATA}/baskets.json', 'format' = 'json');

SELECT id, tag FROM baskets LEFT JOIN UNNEST(tags) AS t (tag) ON tag = 'a';
SELECT id, tag FROM baskets LEFT JOIN UNNEST(tags) AS t (tag) ON tag <> 'a';
SELECT id, tag FROM baskets LEFT JOIN UNNEST(tags) AS t (tag) ON t.tag IS NOT NULL AND CHAR_LENGTH(t.tag) > 3;
SELECT id, n, c FROM baskets LEFT JOIN UNNEST(items) AS t (n, c) ON c > 1;
SELECT id, n, c FROM baskets LEFT JOIN UNNEST(items) AS t (n, c) ON c > 1 OR n IS NULL WHERE id < 4;
-- rowsort
SELECT id, k, v FROM baskets LEFT JOIN UNNEST(stock) AS t (k, v) ON v >= 2;
SELECT id, tag FROM baskets LEFT JOIN UNNEST(tags) AS t (tag) ON 1 = 1;
-- materialized
SELECT id, x, tag FROM baskets LEFT JOIN UNNEST(ARRAY[1, 2]) AS s (x) ON x = 2 LEFT JOIN UNNEST(tags) AS t (tag) ON tag LIKE 'b%';
SELECT tag, COUNT(*) AS n FROM baskets LEFT JOIN UNNEST(tags) AS t (tag) ON tag <> 'a' GROUP BY tag;
SELECT id, tag FROM baskets INNER JOIN UNNEST(tags) AS t (tag) ON tag <> 'a';
-- differs: Flink cannot plan a condition on columns of the left side
SELECT id, tag FROM baskets LEFT JOIN UNNEST(tags) AS t (tag) ON id > 1;
-- differs: Flink cannot plan a condition on columns of the left side
SELECT id, tag FROM baskets LEFT JOIN UNNEST(tags) AS t (tag) ON tag = tags[1];
-- differs: Flink cannot plan a condition with the number of the element
SELECT id, tag, pos FROM baskets LEFT JOIN UNNEST(tags) WITH ORDINALITY AS t (tag, pos) ON pos > 1;
SELECT id, tag FROM baskets RIGHT JOIN UNNEST(tags) AS t (tag) ON tag = 'a';
SELECT id, tag FROM baskets LEFT JOIN UNNEST(tags) AS t (tag) ON tag;
