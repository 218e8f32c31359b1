CALL system.f(1)
--> 1:6: syntax error: unexpected 'system'
-->   | CALL system.f(1)
-->   |      ^^^^^^
-->   detail: expected the name of a function, and SYSTEM is a reserved word
-->   hint: write it as `system`

SELECT CAST(a AS TIMESTAMP WITH TIME ZONE)
--> 1:28: not supported: TIMESTAMP WITH TIME ZONE is not supported
-->   | SELECT CAST(a AS TIMESTAMP WITH TIME ZONE)
-->   |                            ^^^^
-->   hint: use TIMESTAMP_LTZ

SELECT TIMESTAMP WITH TIME ZONE '2020-01-01 00:00:00 UTC'
--> 1:18: not supported: TIMESTAMP WITH TIME ZONE is not supported
-->   | SELECT TIMESTAMP WITH TIME ZONE '2020-01-01 00:00:00 UTC'
-->   |                  ^^^^
-->   hint: use TIMESTAMP_LTZ

CREATE TABLE t (a TIME(3) WITH TIME ZONE)
--> 1:27: not supported: TIME WITH TIME ZONE is not supported
-->   | CREATE TABLE t (a TIME(3) WITH TIME ZONE)
-->   |                           ^^^^
-->   hint: use TIMESTAMP_LTZ
