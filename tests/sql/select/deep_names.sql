-- A path of names is called by its last one, however deep the field lies.
CREATE VIEW t AS SELECT 1 AS id, CAST(ROW(ROW(ROW(ROW(3)))) AS ROW<a ROW<b ROW<c ROW<d INT>>>>) AS r;
SELECT r.a.b.c.d FROM t;
SELECT x.r.a.b.c.d, r.a.b.c, r.a.b, r.a FROM t x;
SELECT (r.a).b.c.d, r.a.b.c.d + 1, t.r.a.b.c.d FROM t;
SELECT d FROM (SELECT r.a.b.c.d FROM t);
SELECT r.a.b.c.d, COUNT(*) FROM t GROUP BY r.a.b.c.d;
SELECT x.r.a.b.c.* FROM t x;
CREATE VIEW v AS SELECT r.a.b.c.d, id FROM t;
SELECT d FROM v;
