SELECT id FROM files WHERE dy = 'mon' AND id > 3;
SELECT id, hr FROM files WHERE dy = 'mon' OR hr + 1 > 5;
SELECT id FROM files WHERE dy = v;
-- a cast that can fail stays where it is
SELECT id FROM files WHERE CAST(dy AS INT) > 1 AND hr = 2;
-- not below a watermark, which would be another one
SELECT id FROM timed WHERE dy = 'mon';
SELECT a.id FROM files AS a JOIN files AS b ON a.id = b.id WHERE a.dy = 'mon' AND b.hr = 1;
