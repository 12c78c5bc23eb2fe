#!/bin/sh
# The sqlite3 shell: SQL in breadth, virtual tables, the shell's own commands and output modes, damage and recovery.
set -eu
ln -s "$1" sqlite3
export HOME=$PWD TZ=UTC
cat >all.sql <<'SQL'
create table t(id integer primary key, name text not null, v real default 0.5, b blob, check (length(name) < 50));
create index t_name on t(name collate nocase); create unique index t_v on t(v, id) where v > 1; create index t_e on t(abs(v));
with recursive n(i) as (select 1 union all select i + 1 from n where i < 500) insert into t select i, 'name' || (i * 7919 % 500), i / 3.0, zeroblob(i % 5) from n;
select count(*), sum(v), avg(v), min(name), max(name), total(id), group_concat(id, '-') from t where id <= 10;
select name, v from t where name like 'NAME1%' order by v desc limit 5 offset 2;
select id, row_number() over w, rank() over w, dense_rank() over w, ntile(4) over w, lag(v, 1, -1) over w, lead(id) over w, sum(v) over (order by id rows between 2 preceding and 1 following exclude ties), first_value(name) over w, nth_value(id, 2) over w, percent_rank() over w, cume_dist() over w from t where id < 8 window w as (partition by id % 2 order by v);
update t set v = v * 2, name = upper(name) where id % 50 = 0 returning id, name, v; delete from t where id between 490 and 495;
insert into t(id, name) values (1, 'dup') on conflict(id) do update set name = excluded.name || '!' where id = 1; insert or ignore into t(id, name) values (2, 'x'); replace into t(id, name) values (3, 'replaced');
select changes(), total_changes(), last_insert_rowid();
create view big as select * from t where v > 100; select count(*) from big; create table tt as select id % 3 g, count(*) c from t group by g having c > 10; select * from tt order by 1;
create trigger tr after insert on t when new.id > 1000 begin insert into tt values (new.id, -1); select raise(ignore) where new.id = 1002; end; insert into t(id, name) values (1001, 'trig'), (1002, 'ign'); select * from tt order by 1;
create table child(p references t(id) on delete cascade, x generated always as (p * 2) stored, y as (p + 1) virtual); pragma foreign_keys = on; insert into child values (5), (6); delete from t where id = 5; select * from child; pragma foreign_key_check;
begin; savepoint a; delete from t; rollback to a; release a; commit; select count(*) from t;
select a.id, b.id from t a join t b on a.id = b.id + 1 left join child c on c.p = a.id natural left join (select 7 as id) where a.id between 6 and 9 order by 1; select * from (select 1 x union select 2 except select 1 intersect select 2); select 1 where exists (select 1 from t where id = 4) and 3 in (select id from t) and (1, 2) < (1, 3);
select abs(-3), round(2.567, 2), hex(x'00ff'), quote('it''s'), substr('abcdef', 2, 3), instr('hello', 'l'), replace('aXbX', 'X', '-'), trim('  x '), ltrim('xxy', 'x'), char(65, 8364), unicode('€'), printf('%05d|%-6s|%.3f|%e|%x|%,d|%q', 42, 'ab', 3.14159, 12345.678, 255, 1234567, 'q''q'), typeof(1), typeof(1.0), typeof(x''), nullif(1, 1), coalesce(null, 2), iif(1 > 0, 'y', 'n'), likely(1), glob('a*', 'abc'), 'abc' like 'A_C', zeroblob(2), soundex is null from (select 1 soundex);
select sin(1), pow(2, 10), log(100), ceil(1.2), pi(), degrees(pi()), trunc(-2.7), mod(7, 3);
select date('2024-02-29', '+1 year'), time('12:34:56', '+1 hour'), datetime(0, 'unixepoch'), julianday('2000-01-01'), strftime('%Y %j %W %s', '2021-06-15'), date('2024-01-31', 'start of month', '+1 month', 'weekday 0');
select json('{"a":[1,2,{"b":null}]}'), json_extract('{"a":[1,2,{"b":"x"}]}', '$.a[2].b'), json_set('{}', '$.k', json_array(1, 'two')), json_remove('[1,2,3]', '$[1]'), json_type('[1]'), json_valid('{'), '{"q":5}' ->> 'q', json_patch('{"a":1}', '{"a":null,"b":2}'), json_group_array(id), json_group_object(name, id) from t where id < 4; select key, value, type, fullkey from json_tree('{"a":[1,{"b":2}]}'); select value from json_each('[3,1,2]') order by value;
create virtual table f5 using fts5(title, body, tokenize = 'porter unicode61', prefix = '2 3'); insert into f5 values ('Running fast', 'the quick brown foxes ran over lazy dogs'), ('Sitting', 'a slow dog sat'), ('Ünïcode', 'ünïcode tökens'); select highlight(f5, 1, '[', ']'), snippet(f5, 1, '<', '>', '...', 4), bm25(f5) < 0 from f5 where f5 match 'fox OR dog*' order by rank; select title from f5 where f5 match 'NEAR(quick fox, 3)' or title match 'unicode'; insert into f5(f5) values ('optimize'), ('integrity-check'); create virtual table v5 using fts5vocab(f5, 'row'); select * from v5 limit 5;
create virtual table f4 using fts4(x, tokenize=porter); insert into f4 values ('connecting connections'), ('other text'); select snippet(f4), offsets(f4) from f4 where x match 'connect'; create virtual table rt using rtree(id, x0, x1, y0, y1); insert into rt select i.value, i.value, i.value + 2, -i.value, i.value from generate_series(1, 60) i; select count(*) from rt where x0 > 10 and x1 < 40 and y1 > 20; select rtreecheck('rt'); create virtual table geo using geopoly(l); insert into geo(_shape) values ('[[0,0],[1,0],[0.5,1],[0,0]]'); select geopoly_area(_shape), geopoly_json(_shape) from geo where geopoly_overlap(_shape, '[[0,0],[2,0],[2,2],[0,2],[0,0]]');
create table wr(a, b, primary key (b, a)) without rowid, strict_is_no_name; create table wr(a, b, primary key (b, a)) without rowid; insert into wr values (1, 2), (3, 1); select * from wr; create table st(a int, b any) strict; insert into st values ('x', 1); insert into st values (1, 'any'); select * from st; alter table st rename column b to c; alter table st add column d text default 'dd'; alter table st drop column a; select * from st; alter table st rename to st2;
explain query plan select * from t where name = 'x' collate nocase and v > 3; explain select 1 + 1; analyze; select tbl, idx from sqlite_stat1 order by 1, 2; reindex; vacuum; pragma integrity_check; pragma quick_check; pragma table_xinfo(child); pragma index_list(t); pragma page_size; pragma user_version = 7; pragma user_version; pragma journal_mode = wal; pragma wal_checkpoint(truncate); pragma journal_mode = delete; pragma auto_vacuum; pragma encoding; pragma compile_options;
select name, path, pageno > 0 from dbstat where name = 't' limit 2; select length(data) from sqlite_dbpage where pgno = 1; select sql from sqlite_stmt limit 0; select type, name from sqlite_schema order by 1, 2;
attach ':memory:' as m; create table m.z as select 1 as one; select * from m.z, main.st2; detach m; select * from nosuch; select 1 +; select 9223372036854775807 + 1, 1 / 0, 5 % 0, -9223372036854775808, 0x7f, 1e400, '12abc' + 1, cast('7.9' as int); select group_concat(x) from (select 'b' x union all select 'a') ; select max(1, 2, 3), min('b', 'a'); values (1, 'a'), (2, 'b'); select * from t where id = ?1 limit 1;
SQL
# One statement a line: an error ends the rest of its line.
sed 's/; /;\n/g' all.sql >statements.sql
./sqlite3 -batch a.db <statements.sql 2>&1 || echo "status $?"
./sqlite3 -batch a.db .dump >dump.sql; sed '/^INSERT/d' dump.sql | head -30; cksum <dump.sql
./sqlite3 b.db <dump.sql; ./sqlite3 b.db .dump | cmp - dump.sql || { echo "sqlite3: dump is not stable" >&2; exit 1; }
cat >shell.txt <<'CMD'
.tables
.indexes t
.schema child
.fullschema
.headers on
.mode column
.width 5 -8
select id, name, v from t limit 3;
.mode csv
select id, name, 'a"b,c' from t limit 2;
.mode json
select id, name, v, b from t limit 2;
.mode insert tt
select id, name, b from t limit 2;
.mode html
select id, name from t limit 1;
.mode line
select id, name from t limit 1;
.mode markdown
select id, name from t limit 2;
.mode box
select id, name from t limit 2;
.mode table
select id, name from t limit 2;
.mode quote
select id, name, null, x'01' from t limit 2;
.mode tcl
select id, name from t limit 1;
.mode list
.separator |
.nullvalue NIL
select null, 1;
.parameter set :p 5
select :p * 2;
.parameter list
.databases
.dbinfo
.eqp on
select count(*) from t where id > 3;
.eqp off
.expert
select * from t where b = 1 and v = 2;
.once out.txt
select 'to a file';
.import --csv in.csv imported
select * from imported;
.output dumped.txt
.dump wr
.output
.sha3sum
.selftest
.backup copy.db
.save saved.db
.open copy.db
pragma integrity_check;
.lint fkey-indexes
.limit
.show
.print printed text
.nonsense
.stats off
.timeout 10
.changes on
update t set v = 1 where id = 1;
.recover
.quit
CMD
printf 'h1,h2\n1,"a,b"\n2,"multi\nline"\n' >in.csv
./sqlite3 -batch a.db <shell.txt 2>&1 | sed "s#$PWD#PWD#g" || echo "status $?"
cat out.txt dumped.txt
cp a.db bad.db; printf 'XXXXXXXXXXXXXXXX' | dd of=bad.db bs=1 seek=4200 conv=notrunc 2>/dev/null
./sqlite3 bad.db 'pragma integrity_check' 2>&1 | head -5
./sqlite3 :memory: "select readfile('in.csv'), writefile('w.txt', 'written'), edit is null from (select 1 edit); select * from fsdir('in.csv') where 0; select sha3('x') = sha3('x'), decimal_add('1.1', '2.2'), ieee754(2.0), regexp('a.c', 'abc')" 2>&1 || echo "status $?"
./sqlite3 -csv -header :memory: "select 1 as a, 'x' as b" "select sum(value) from generate_series(1, 100)"
./sqlite3 -version | cut -c1-30
./sqlite3 --nonsense 2>&1 || echo "status $?"
./sqlite3 -help 2>&1 | head -8
