-- The ten highest bids of each auction.
SELECT auction, bidder, price, channel, url, `dateTime`, extra, place
FROM (SELECT *, ROW_NUMBER() OVER (PARTITION BY auction ORDER BY price DESC) AS place FROM bid)
WHERE place <= 10;
