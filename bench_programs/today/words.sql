-- SPDX-License-Identifier: MIT
-- sqlite3's load: a database in memory, statements with joins, groups and text functions.
PRAGMA temp_store = memory;
CREATE TABLE word (id INTEGER PRIMARY KEY, text TEXT, length INTEGER);
WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 60000)
INSERT INTO word SELECT i, printf('%x-%d', i * 7919 % 1000003, i % 977), 0 FROM n;
UPDATE word SET length = length(text);
CREATE INDEX word_text ON word (text);
SELECT count(*), sum(a.id * b.length) FROM word a JOIN word b ON b.text = printf('%x-%d', a.id * 7919 % 1000003, a.id % 977);
SELECT substr(text, 1, 2) AS head, count(*), group_concat(text, ' ') LIKE '%9%' FROM word GROUP BY head ORDER BY 2 DESC LIMIT 5;
SELECT sum(length(replace(upper(text), 'A', text || text))) FROM word;
DELETE FROM word WHERE id % 3 = 0;
SELECT json_array_length(json_group_array(json_object('id', id, 'text', text))) FROM word;
