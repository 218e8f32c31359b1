-- The winning bid of each auction.
SELECT id, itemName, description, initialBid, reserve, opened, expires, seller, category, bidder, price, placed
FROM (
  SELECT a.*, a.`dateTime` AS opened, b.auction, b.bidder, b.price, b.`dateTime` AS placed,
    ROW_NUMBER() OVER (PARTITION BY a.id ORDER BY b.price DESC, b.`dateTime` ASC) AS place
  FROM auction AS a, bid AS b
  WHERE a.id = b.auction AND b.`dateTime` BETWEEN a.`dateTime` AND a.expires
)
WHERE place <= 1;
