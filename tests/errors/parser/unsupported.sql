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
