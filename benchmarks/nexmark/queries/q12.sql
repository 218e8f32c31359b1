-- How many bids each person made in ten seconds by the clock.
SELECT bidder, COUNT(*) AS bids, window_start AS starts, window_end AS ends
FROM TABLE(TUMBLE(TABLE bid, DESCRIPTOR(proctime), INTERVAL '10' SECOND))
GROUP BY bidder, window_start, window_end;
