-- All bids as they are.
SELECT auction, bidder, price, `dateTime`, extra FROM bid;
