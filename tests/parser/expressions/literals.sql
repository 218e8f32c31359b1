'it''s c:\temp'
--> 'it's c:\temp'

'one'
'string'
--> 'onestring'

X'0aFF'
--> HexString:0AFF

1.50
--> 1.50

1e3
--> 1e3

.5
--> .5

-9223372036854775808
--> (Neg 9223372036854775808)

DATE '2020-1-1'
--> (Cast '2020-01-01' to=<DATE NOT NULL>)

TIME '1:2:3.25'
--> (Cast '01:02:03.25' to=<TIME(2) NOT NULL>)

TIMESTAMP '2020-01-01'
--> (Cast '2020-01-01 00:00:00' to=<TIMESTAMP(0) NOT NULL>)

TIMESTAMP '2020-01-01 12:30:00.123456'
--> (Cast '2020-01-01 12:30:00.123456' to=<TIMESTAMP(6) NOT NULL>)

INTERVAL '10' SECOND
--> Interval:10000 ms

INTERVAL '1.5' SECONDS
--> Interval:1500 ms

INTERVAL 10 MINUTE
--> Interval:600000 ms

INTERVAL '1-2' YEAR TO MONTH
--> Interval:14 months

INTERVAL -'1 2:03:04.5' DAY TO SECOND
--> Interval:-93784500 ms

INTERVAL '2' QUARTER
--> Interval:6 months

TRUE OR FALSE OR UNKNOWN OR NULL
--> (Or (Or (Or Boolean:True Boolean:False) (Null kind=UNKNOWN)) (Null))
