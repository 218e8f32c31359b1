-- Bids with their auctions and the sellers of these.
SELECT b.auction, b.bidder, b.price, b.`dateTime` AS placed, a.itemName, a.seller, p.name, p.city, p.state
FROM bid AS b JOIN auction AS a ON b.auction = a.id JOIN person AS p ON a.seller = p.id;
