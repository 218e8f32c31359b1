CREATE TEMPORARY FUNCTION hello AS '${MODULE}hello' LANGUAGE ${LANGUAGE};
CREATE TEMPORARY FUNCTION clock AS '${MODULE}clock' LANGUAGE ${LANGUAGE};
CREATE TEMPORARY FUNCTION counted AS '${MODULE}counted' LANGUAGE ${LANGUAGE};
CREATE TEMPORARY FUNCTION passing AS '${MODULE}passing' LANGUAGE ${LANGUAGE};
CREATE TEMPORARY FUNCTION whole AS '${MODULE}whole' LANGUAGE ${LANGUAGE};
CREATE TEMPORARY FUNCTION paired AS '${MODULE}paired' LANGUAGE ${LANGUAGE};
CREATE TEMPORARY FUNCTION timing AS '${MODULE}timing' LANGUAGE ${LANGUAGE};
CREATE TEMPORARY VIEW scores AS SELECT * FROM (VALUES ('Bob', 12), ('Alice', 42)) AS t (name, score);
CREATE TEMPORARY TABLE moves (name STRING, what STRING, ts TIMESTAMP(3), WATERMARK FOR ts AS ts)
WITH ('connector' = 'filesystem', 'path' = '${DATA}/moves.json', 'format' = 'json');
CREATE TEMPORARY TABLE plain (name STRING, what STRING, ts TIMESTAMP(3))
WITH ('connector' = 'filesystem', 'path' = '${DATA}/moves.json', 'format' = 'json');
CREATE TEMPORARY VIEW sums AS SELECT name, COUNT(*) AS score FROM moves GROUP BY name;

-- tables
SELECT * FROM counted(TABLE scores);
SELECT * FROM counted();
SELECT * FROM counted(r => 7);
SELECT * FROM counted(r => ROW(7));
SELECT * FROM counted(TABLE nowhere PARTITION BY name);
SELECT * FROM counted(TABLE scores PARTITION BY nothing);
SELECT * FROM counted(TABLE scores PARTITION BY UPPER(name));
SELECT * FROM counted(TABLE scores PARTITION BY name, TABLE scores PARTITION BY name);
-- differs: of a function that remembers nothing PARTITION BY says which columns go on
SELECT * FROM hello(TABLE scores PARTITION BY name, 'x');
SELECT * FROM counted(TABLE sums PARTITION BY name);
SELECT * FROM paired(people => TABLE scores PARTITION BY name, cities => TABLE scores PARTITION BY score);
SELECT * FROM paired(people => TABLE scores PARTITION BY name);

-- arguments
SELECT * FROM hello(TABLE scores);
SELECT * FROM hello(TABLE scores, 7);
SELECT * FROM hello(TABLE scores, 'x', 'y');
SELECT * FROM hello(TABLE scores, 'x', 1, DEFAULT, 'u', 2);
SELECT * FROM hello(TABLE scores, word => 'x');
-- differs: an argument that is given twice is refused, Flink takes the last one
SELECT * FROM hello(who => TABLE scores, word => 'x', word => 'y');
-- differs: an argument that there is not is refused, Flink forgets it
SELECT * FROM hello(who => TABLE scores, word => 'x', words => 'y');
SELECT * FROM hello(who => TABLE scores, word => name);
SELECT * FROM hello(who => TABLE scores, word => DEFAULT);

-- the identity
SELECT * FROM counted(TABLE scores PARTITION BY name, DEFAULT, '1x');
SELECT * FROM counted(TABLE scores PARTITION BY name, DEFAULT, 'x y');
SELECT * FROM counted(TABLE scores PARTITION BY name, DEFAULT, '');
SELECT * FROM counted(TABLE scores PARTITION BY name, DEFAULT, 7);
-- differs: a uid is a text
SELECT * FROM counted(TABLE scores PARTITION BY name, DEFAULT, CAST(NULL AS STRING));
SELECT * FROM counted(TABLE scores PARTITION BY name, DEFAULT, 'x' || 'y');
SELECT * FROM counted(TABLE scores PARTITION BY name, uid => 'x');
SELECT * FROM counted(r => TABLE scores PARTITION BY name) UNION ALL SELECT * FROM counted(r => (SELECT * FROM scores WHERE score > 20) PARTITION BY name);
SELECT * FROM counted(r => TABLE scores PARTITION BY name, uid => 'a') UNION ALL SELECT * FROM counted(r => (SELECT * FROM scores WHERE score > 20) PARTITION BY name, uid => 'a');
-- rowsort
SELECT * FROM counted(r => TABLE scores PARTITION BY name, uid => 'a') UNION ALL SELECT * FROM counted(r => (SELECT * FROM scores WHERE score > 20) PARTITION BY name, uid => 'b');
-- rowsort
SELECT * FROM counted(r => TABLE scores PARTITION BY name, uid => 'a') UNION ALL SELECT * FROM counted(r => TABLE scores PARTITION BY name, uid => 'a');
SELECT * FROM counted(r => TABLE scores PARTITION BY name, uid => 'a') UNION ALL SELECT * FROM passing(r => TABLE scores PARTITION BY name, uid => 'a');
-- rowsort
SELECT * FROM hello(TABLE scores, 'x', 1, DEFAULT, 'a') UNION ALL SELECT * FROM hello(TABLE scores, 'y', 1, DEFAULT, 'a');
-- rowsort
SELECT * FROM hello(TABLE scores, 'x', 1) UNION ALL SELECT * FROM hello(TABLE scores, 'y', 1);
-- rowsort
SELECT * FROM whole(r => TABLE scores, uid => 'a') UNION ALL SELECT * FROM whole(r => TABLE scores, uid => 'A');
SELECT * FROM whole(TABLE scores) UNION ALL SELECT n FROM whole(TABLE scores PARTITION BY name);

-- the time
SELECT * FROM clock(TABLE moves);
SELECT * FROM timing(TABLE moves PARTITION BY name);
SELECT * FROM clock(r => TABLE moves, on_time => DESCRIPTOR(nothing));
SELECT * FROM clock(r => TABLE moves, on_time => DESCRIPTOR(name));
SELECT * FROM clock(r => TABLE moves, on_time => DESCRIPTOR(ts, name));
SELECT * FROM clock(r => TABLE moves, on_time => DESCRIPTOR());
SELECT * FROM clock(r => TABLE moves, on_time => ts);
SELECT * FROM clock(r => TABLE moves, on_time => 'ts');
SELECT * FROM clock(r => TABLE moves, on_time => DEFAULT);
SELECT * FROM clock(r => TABLE plain, on_time => DESCRIPTOR(ts));
SELECT * FROM clock(r => (SELECT ts AS a, ts AS b FROM moves), on_time => DESCRIPTOR(a, b));
SELECT * FROM counted(r => TABLE moves PARTITION BY name ORDER BY name);
SELECT * FROM counted(r => TABLE moves PARTITION BY name ORDER BY ts DESC);
-- differs: of a function that remembers nothing ORDER BY is taken, too
SELECT * FROM clock(r => TABLE moves ORDER BY ts, on_time => DESCRIPTOR(ts));

-- places
SELECT hello(name) FROM scores;
-- differs: a process function is no table function that joins
SELECT * FROM scores, LATERAL TABLE(hello(TABLE scores, 'x'));
SELECT * FROM TABLE(hello(TABLE scores, 'x'));
SELECT * FROM TABLE(counted(r => TABLE scores PARTITION BY name)) AS t (a, b, c);
