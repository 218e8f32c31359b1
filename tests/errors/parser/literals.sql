SELECT DATE '2020-02-30'
--> 1:13: syntax error: string '2020-02-30' is no DATE
-->   | SELECT DATE '2020-02-30'
-->   |             ^^^^^^^^^^^^
-->   hint: write DATE '2024-12-31'

SELECT TIMESTAMP '2020-01-01T00:00:00'
--> 1:18: syntax error: string '2020-01-01T00:00:00' is no TIMESTAMP
-->   | SELECT TIMESTAMP '2020-01-01T00:00:00'
-->   |                  ^^^^^^^^^^^^^^^^^^^^^
-->   hint: write TIMESTAMP '2024-12-31 23:59:59.999'

SELECT TIME '25:00:00'
--> 1:13: syntax error: string '25:00:00' is no TIME
-->   | SELECT TIME '25:00:00'
-->   |             ^^^^^^^^^^
-->   hint: write TIME '23:59:59'

SELECT INTERVAL '1' FORTNIGHT
--> 1:21: syntax error: unexpected 'FORTNIGHT'
-->   | SELECT INTERVAL '1' FORTNIGHT
-->   |                     ^^^^^^^^^
-->   detail: expected a unit: YEAR, QUARTER, MONTH, WEEK, DAY, HOUR, MINUTE, SECOND

SELECT INTERVAL 'x' SECOND
--> 1:17: syntax error: string 'x' is no interval of SECOND
-->   | SELECT INTERVAL 'x' SECOND
-->   |                 ^^^

SELECT INTERVAL '1 25:00:00' DAY TO SECOND
--> 1:17: syntax error: string '1 25:00:00' has 25 as its HOUR
-->   | SELECT INTERVAL '1 25:00:00' DAY TO SECOND
-->   |                 ^^^^^^^^^^^^

SELECT INTERVAL '1' SECOND TO DAY
--> 1:31: syntax error: there is no interval of SECOND TO DAY
-->   | SELECT INTERVAL '1' SECOND TO DAY
-->   |                               ^^^

SELECT INTERVAL '1' YEAR TO DAY
--> 1:29: syntax error: months and days do not mix in an interval
-->   | SELECT INTERVAL '1' YEAR TO DAY
-->   |                             ^^^

SELECT CAST(a AS DECIMAL(10, 11))
--> 1:26: syntax error: DECIMAL has 1 to 38 digits, and no more after the point than in all
-->   | SELECT CAST(a AS DECIMAL(10, 11))
-->   |                          ^^

SELECT INTERVAL '1.1234567' SECOND
--> 1:17: syntax error: string '1.1234567' is no interval of SECOND
-->   | SELECT INTERVAL '1.1234567' SECOND
-->   |                 ^^^^^^^^^^^

SELECT U&"a\12"
--> 1:8: syntax error: bad escape in a name
-->   | SELECT U&"a\12"
-->   |        ^^^^^^^^
-->   hint: write four hexadecimal digits
