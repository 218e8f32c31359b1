-- The auctions with the most bids of the last ten seconds, every two seconds.
SELECT counted.auction, counted.num
FROM (
  SELECT auction, COUNT(*) AS num, window_start AS starts, window_end AS ends
  FROM TABLE(HOP(TABLE bid, DESCRIPTOR(`dateTime`), INTERVAL '2' SECOND, INTERVAL '10' SECOND))
  GROUP BY auction, window_start, window_end
) AS counted
JOIN (
  SELECT MAX(num) AS most, starts, ends
  FROM (
    SELECT COUNT(*) AS num, window_start AS starts, window_end AS ends
    FROM TABLE(HOP(TABLE bid, DESCRIPTOR(`dateTime`), INTERVAL '2' SECOND, INTERVAL '10' SECOND))
    GROUP BY auction, window_start, window_end
  )
  GROUP BY starts, ends
) AS top
ON counted.starts = top.starts AND counted.ends = top.ends AND counted.num >= top.most;
