CREATE TABLE baskets (id INT, tags ARRAY<STRING>, items ARRAY<ROW<n STRING, c INT>>, stock MAP<STRING, INT>) WITH ('connector' = 'filesystem', 'path' = '${DATA}/baskets.json', 'format' = 'json');

SELECT id, tag FROM baskets CROSS JOIN UNNEST(tags) AS t (tag);
SELECT id, n, c FROM baskets, UNNEST(items) AS t;
SELECT id, t.a, t.b FROM baskets CROSS JOIN UNNEST(items) AS t (a, b);
-- rowsort
SELECT id, k, v FROM baskets CROSS JOIN UNNEST(stock) AS t (k, v);
SELECT id, tag FROM baskets LEFT JOIN UNNEST(tags) AS t (tag) ON TRUE;
SELECT id, n FROM baskets LEFT JOIN UNNEST(items) AS t (n, c) ON TRUE;
SELECT id, tag, pos FROM baskets CROSS JOIN UNNEST(tags) WITH ORDINALITY AS t (tag, pos);
SELECT id, a, b, pos FROM (SELECT * FROM baskets WHERE id < 4) CROSS JOIN UNNEST(items) WITH ORDINALITY AS t (a, b, pos) WHERE pos > 1;
SELECT x FROM UNNEST(ARRAY[3, 1, 2]) AS t (x);
SELECT id, x, y FROM baskets CROSS JOIN UNNEST(ARRAY[1, 2]) AS s (x) CROSS JOIN UNNEST(tags) AS t (y) WHERE id <> 4;
SELECT tag, COUNT(*) AS n FROM baskets CROSS JOIN UNNEST(tags) AS t (tag) GROUP BY tag;
-- rowsort
SELECT a.id, tag, b.id FROM baskets a CROSS JOIN UNNEST(a.tags) AS t (tag) JOIN baskets b ON t.tag = b.tags[1];
-- rowsort
SELECT id, w FROM baskets b, LATERAL (SELECT tags[1] AS w FROM baskets v WHERE v.id >= b.id) AS s;
-- materialized
SELECT id, w FROM baskets b LEFT JOIN LATERAL (SELECT tags[1] AS w FROM baskets v WHERE v.id = b.id + 1) AS s ON TRUE;
-- materialized
SELECT id, s.n FROM baskets b, LATERAL (SELECT COUNT(*) AS n, MAX(v.id) AS m FROM baskets v WHERE v.id = b.id + 2) AS s;
SELECT id, tag FROM baskets CROSS JOIN UNNEST(id) AS t (tag);
SELECT id, tag FROM baskets CROSS JOIN UNNEST(tags) AS t (tag, more);
