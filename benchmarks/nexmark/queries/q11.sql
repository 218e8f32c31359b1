-- How many bids each person made in a session.
SELECT bidder, COUNT(*) AS bids, window_start AS starts, window_end AS ends
FROM TABLE(SESSION(TABLE bid PARTITION BY bidder, DESCRIPTOR(`dateTime`), INTERVAL '10' SECOND))
GROUP BY bidder, window_start, window_end;
