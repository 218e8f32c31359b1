-- The mean of the closing prices of each category.
SELECT category, AVG(final) AS price
FROM (
  SELECT MAX(b.price) AS final, a.category
  FROM auction AS a, bid AS b
  WHERE a.id = b.auction AND b.`dateTime` BETWEEN a.`dateTime` AND a.expires
  GROUP BY a.id, a.category
)
GROUP BY category;
