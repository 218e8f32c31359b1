SELECT 1;
SELEC 2;
--> 2:1: syntax error: unexpected 'SELEC'
-->   | SELEC 2;
-->   | ^^^^^
-->   detail: expected a statement, such as SELECT, INSERT INTO or CREATE TABLE
-->   hint: did you mean SELECT?

SELECT a
FROM t
WHERE a = 1 AND
--> 3:16: syntax error: unexpected end of statement
-->   | WHERE a = 1 AND
-->   |                ^
-->   detail: expected an expression

SELECT a FROM t WHERE name = 'it's';
--> 1:35: syntax error: the string that begins here is not closed
-->   | SELECT a FROM t WHERE name = 'it's';
-->   |                                   ^
-->   hint: close it with '

SELECT `a FROM t
--> 1:8: syntax error: the name that begins here is not closed
-->   | SELECT `a FROM t
-->   |        ^
-->   hint: close it with `

SELECT 'a
--> 1:8: syntax error: the string that begins here is not closed
-->   | SELECT 'a
-->   |        ^
-->   hint: close it with '

SELECT 1 /* never closed
--> 1:10: syntax error: the comment that begins here is not closed
-->   | SELECT 1 /* never closed
-->   |          ^
-->   hint: close it with */

SELECT "a" FROM t
--> 1:8: syntax error: double quotes mean nothing in Flink SQL
-->   | SELECT "a" FROM t
-->   |        ^
-->   hint: put names in backticks and strings in single quotes

SELECT a != b FROM t
--> 1:10: syntax error: unexpected '!='
-->   | SELECT a != b FROM t
-->   |          ^^
-->   detail: not-equal is written <>
-->   hint: write <>

SELECT a == b FROM t
--> 1:11: syntax error: unexpected '='
-->   | SELECT a == b FROM t
-->   |           ^
-->   detail: expected an expression
-->   hint: equality is written with one =

SELECT one FROM t
--> 1:8: syntax error: unexpected 'one'
-->   | SELECT one FROM t
-->   |        ^^^
-->   detail: expected a name, and ONE is a reserved word
-->   hint: write it as `one`

CREATE VIEW rule AS SELECT 1 AS value
--> 1:33: syntax error: unexpected 'value'
-->   | CREATE VIEW rule AS SELECT 1 AS value
-->   |                                 ^^^^^
-->   detail: expected the name of a column, and VALUE is a reserved word
-->   hint: write it as `value`

SELECT t.year FROM t
--> 1:10: syntax error: unexpected 'year'
-->   | SELECT t.year FROM t
-->   |          ^^^^
-->   detail: expected a name, and YEAR is a reserved word
-->   hint: write it as `year`

SELECT a 'name' FROM t
--> 1:10: syntax error: unexpected string 'name'
-->   | SELECT a 'name' FROM t
-->   |          ^^^^^^
-->   detail: expected the name of a column
-->   hint: write it as `name`

SELECT (1, 2 FROM t
--> 1:14: syntax error: unexpected 'FROM'
-->   | SELECT (1, 2 FROM t
-->   |              ^^^^
-->   detail: expected )

SELECT a::INT FROM t
--> 1:9: syntax error: unexpected ':'
-->   | SELECT a::INT FROM t
-->   |         ^
-->   detail: expected end of statement

SELECT 'a' 'b'
--> 1:12: syntax error: unexpected string 'b'
-->   | SELECT 'a' 'b'
-->   |            ^^^
-->   detail: two strings on one line do not join
-->   hint: put || between them

SELECT X'abc'
--> 1:8: syntax error: unexpected 'abc'
-->   | SELECT X'abc'
-->   |        ^^^^^^
-->   detail: a binary string has an even number of hexadecimal digits

SELECT a IS 1
--> 1:13: syntax error: unexpected '1'
-->   | SELECT a IS 1
-->   |             ^
-->   detail: expected NULL, TRUE, FALSE, UNKNOWN, DISTINCT FROM, JSON, EMPTY or A SET

SELECT a NOT NULL
--> 1:14: syntax error: unexpected 'NULL'
-->   | SELECT a NOT NULL
-->   |              ^^^^
-->   detail: expected BETWEEN, IN, LIKE, ILIKE, RLIKE, SIMILAR, SUBMULTISET

SELECT CASE END
--> 1:13: syntax error: unexpected 'END'
-->   | SELECT CASE END
-->   |             ^^^
-->   detail: expected an expression

SELECT CAST(a AS INT NOT NULL)
--> 1:22: syntax error: unexpected 'NOT'
-->   | SELECT CAST(a AS INT NOT NULL)
-->   |                      ^^^
-->   detail: expected )

SELECT ä, € FROM t
--> 1:11: syntax error: unexpected character '€'
-->   | SELECT ä, € FROM t
-->   |           ^

SELECT a FROM VALUES (1)
--> 1:15: syntax error: unexpected 'VALUES'
-->   | SELECT a FROM VALUES (1)
-->   |               ^^^^^^
-->   detail: expected a table
-->   hint: put VALUES in parentheses and give it a name: (VALUES (1)) AS t (x)

SELECT * FROM a JOIN b
--> 1:23: syntax error: unexpected end of statement
-->   | SELECT * FROM a JOIN b
-->   |                       ^
-->   detail: expected ON or USING

SELECT a FROM a.b.c.d
--> 1:21: syntax error: unexpected 'd'
-->   | SELECT a FROM a.b.c.d
-->   |                     ^
-->   detail: a table's name has at most three parts: catalog, database and table

SELECT f(a b)
--> 1:12: syntax error: unexpected 'b'
-->   | SELECT f(a b)
-->   |            ^
-->   detail: expected )

SELECT 1 LIMIT
--> 1:15: syntax error: unexpected end of statement
-->   | SELECT 1 LIMIT
-->   |               ^
-->   detail: expected a number of rows

SELECT a WHERE a = 1
--> 1:10: syntax error: unexpected 'WHERE'
-->   | SELECT a WHERE a = 1
-->   |          ^^^^^
-->   detail: expected FROM

SELECT a FROM t LIMIT b
--> 1:23: syntax error: unexpected 'b'
-->   | SELECT a FROM t LIMIT b
-->   |                       ^
-->   detail: expected a number of rows

SELECT DISTINCT FROM t
--> 1:17: syntax error: unexpected 'FROM'
-->   | SELECT DISTINCT FROM t
-->   |                 ^^^^
-->   detail: expected an expression

SELECT 1 MINUS SELECT 2
--> 1:10: syntax error: unexpected 'MINUS'
-->   | SELECT 1 MINUS SELECT 2
-->   |          ^^^^^
-->   detail: the difference of two queries is EXCEPT
-->   hint: write EXCEPT

SELECT * FROM (t)
--> 1:15: syntax error: a relation in parentheses is a query or a join
-->   | SELECT * FROM (t)
-->   |               ^
-->   hint: leave the parentheses out

SELECT * FROM ((VALUES (1)) AS t (x))
--> 1:15: syntax error: a relation in parentheses is a query or a join
-->   | SELECT * FROM ((VALUES (1)) AS t (x))
-->   |               ^
-->   hint: leave the parentheses out

SELECT * FROM (t, u)
--> 1:15: syntax error: a relation in parentheses is a query or a join
-->   | SELECT * FROM (t, u)
-->   |               ^
-->   hint: leave the parentheses out

SELECT 1 OFFSET 1 LIMIT 1
--> 1:19: syntax error: unexpected 'LIMIT'
-->   | SELECT 1 OFFSET 1 LIMIT 1
-->   |                   ^^^^^
-->   detail: LIMIT stands before OFFSET
-->   hint: write LIMIT … OFFSET …
