-- Made-up rows, and a sink that swallows them: for trying out how fast a job runs.
CREATE TABLE made (
  id BIGINT,
  amount DOUBLE,
  name STRING
) WITH (
  'connector' = 'datagen',
  'number-of-rows' = '1000',
  'fields.id.kind' = 'sequence',
  'fields.id.start' = '1',
  'fields.id.end' = '1000',
  'fields.amount.min' = '0',
  'fields.amount.max' = '100',
  'fields.name.length' = '8'
);

CREATE TABLE nowhere (id BIGINT, name STRING) WITH ('connector' = 'blackhole');

INSERT INTO nowhere SELECT id, UPPER(name) FROM made WHERE amount < 50;

SELECT id, id * 2 AS twice FROM made WHERE id BETWEEN 990 AND 995 AND amount >= 0 AND name IS NOT NULL;
