CREATE TEMPORARY FUNCTION hello AS '${MODULE}hello' LANGUAGE ${LANGUAGE};
CREATE TEMPORARY FUNCTION clock AS '${MODULE}clock' LANGUAGE ${LANGUAGE};
CREATE TEMPORARY FUNCTION counted AS '${MODULE}counted' LANGUAGE ${LANGUAGE};
CREATE TEMPORARY FUNCTION passing AS '${MODULE}passing' LANGUAGE ${LANGUAGE};
CREATE TEMPORARY FUNCTION whole AS '${MODULE}whole' LANGUAGE ${LANGUAGE};
CREATE TEMPORARY FUNCTION listed AS '${MODULE}listed' LANGUAGE ${LANGUAGE};
CREATE TEMPORARY FUNCTION mapped AS '${MODULE}mapped' LANGUAGE ${LANGUAGE};
CREATE TEMPORARY FUNCTION paired AS '${MODULE}paired' LANGUAGE ${LANGUAGE};
CREATE TEMPORARY FUNCTION timing AS '${MODULE}timing' LANGUAGE ${LANGUAGE};
CREATE TEMPORARY TABLE scores (name STRING, score INT, part STRING)
WITH ('connector' = 'filesystem', 'path' = '${DATA}/scores.json', 'format' = 'json');
CREATE TEMPORARY VIEW strangers AS SELECT city, CAST(visitor AS STRING) AS visitor FROM (VALUES ('Rome', 'Zoe'), ('Oslo', 'Eve')) AS c (city, visitor);
SET 'pipeline.auto-watermark-interval' = '0';
CREATE TEMPORARY TABLE moves (name STRING, what STRING, ts TIMESTAMP(3), WATERMARK FOR ts AS ts)
WITH ('connector' = 'filesystem', 'path' = '${DATA}/moves.json', 'format' = 'json');

SELECT * FROM hello(TABLE scores, 'hi', 1);
SELECT * FROM hello(who => TABLE scores, word => 'hi');
SELECT * FROM hello(times => 3, word => CAST(NULL AS STRING), who => TABLE scores);
SELECT * FROM hello(who => TABLE scores, word => 'hi', times => DEFAULT, uid => DEFAULT);
SELECT * FROM hello(TABLE scores, 'hi', DEFAULT, DEFAULT, 'my-uid');
SELECT said FROM hello(TABLE scores, 'a' || 'b', 1 + 2) WHERE said LIKE '%Bob%';

SELECT * FROM counted(TABLE scores PARTITION BY name);
SELECT * FROM counted(r => TABLE scores PARTITION BY (part, name));
SELECT * FROM counted(r => (SELECT name, 7 AS score, CAST('x' AS STRING) AS part FROM scores) PARTITION BY (score, part));
SELECT * FROM counted(r => TABLE scores PARTITION BY (name, part), uid => 'other');
SELECT `last`, part FROM counted(r => TABLE scores PARTITION BY part);
SELECT * FROM counted(r => (SELECT name AS n, name FROM scores) PARTITION BY n);
SELECT * FROM counted(r => TABLE scores PARTITION BY name) AS t (a, b, c) WHERE b > 1;
SELECT * FROM passing(TABLE scores PARTITION BY name);
SELECT * FROM passing(TABLE scores PARTITION BY part);

SELECT * FROM whole(TABLE scores);
SELECT * FROM whole(TABLE scores PARTITION BY name);

SELECT * FROM listed((SELECT * FROM scores WHERE name IS NOT NULL) PARTITION BY part);
SELECT * FROM mapped((SELECT * FROM scores WHERE name IS NOT NULL));
SELECT * FROM mapped((SELECT * FROM scores WHERE name IS NOT NULL) PARTITION BY part);

SELECT * FROM clock(TABLE moves, DESCRIPTOR(ts)) LIMIT 5;
SELECT * FROM clock(r => TABLE moves, on_time => DESCRIPTOR(ts), uid => 'x');
SELECT * FROM counted(r => TABLE moves PARTITION BY name, on_time => DESCRIPTOR(ts));
SELECT * FROM passing(r => TABLE moves PARTITION BY name, on_time => DESCRIPTOR(ts));
SELECT n, rowtime FROM counted(r => (SELECT name, ts AS rowtime FROM moves) PARTITION BY (name, rowtime), on_time => DESCRIPTOR(rowtime));
SELECT * FROM counted(r => (SELECT name, ts AS rowtime FROM moves) PARTITION BY (name, rowtime), on_time => DESCRIPTOR(rowtime));
CREATE TEMPORARY VIEW numbered AS SELECT * FROM counted(r => TABLE moves PARTITION BY name, on_time => DESCRIPTOR(ts));
SELECT window_start, COUNT(*) FROM TABLE(TUMBLE(TABLE numbered,
  DESCRIPTOR(rowtime), INTERVAL '1' MINUTE)) GROUP BY window_start, window_end;
WITH first_one AS (SELECT * FROM counted(r => TABLE moves PARTITION BY name, on_time => DESCRIPTOR(ts)))
SELECT * FROM clock(r => TABLE first_one, on_time => DESCRIPTOR(rowtime));

-- rowsort
-- differs: the keys of several tables may be NULL where one of them may
SELECT * FROM paired(people => (SELECT * FROM scores WHERE name IS NOT NULL) PARTITION BY name, cities => TABLE strangers PARTITION BY visitor);
