-- A date may be in the year 0, which is a leap year; a timestamp read from text may not.
SELECT x, TO_DATE(x) AS d, TRY_CAST(x AS DATE) AS e, CAST(TO_DATE(x) AS TIMESTAMP(3)) AS i FROM (VALUES ('0'), ('00'), ('0000-12-31'), ('1'), ('0-2-29'), ('0-2-30'), ('0000-00-01'), ('1-1-1')) AS t (x);
SELECT x, TO_DATE(x) + INTERVAL '1' DAY AS a, TO_DATE(x) + INTERVAL '1' MONTH AS b, TO_DATE(x) - INTERVAL '1' DAY AS c, CAST(TO_DATE(x) AS STRING) AS s, YEAR(TO_DATE(x)) AS y, TO_DATE(x) < DATE '0001-01-01' AS q, DAYOFWEEK(TO_DATE(x)) AS w FROM (VALUES ('0'), ('0000-12-31'), ('0-2-29')) AS t (x);
