-- The highest bid of each ten seconds.
SELECT b.auction, b.price, b.bidder, b.`dateTime`, b.extra
FROM bid AS b
JOIN (
  SELECT MAX(price) AS most, window_end AS ends
  FROM TABLE(TUMBLE(TABLE bid, DESCRIPTOR(`dateTime`), INTERVAL '10' SECOND))
  GROUP BY window_start, window_end
) AS top
ON b.price = top.most
WHERE b.`dateTime` BETWEEN top.ends - INTERVAL '10' SECOND AND top.ends;
