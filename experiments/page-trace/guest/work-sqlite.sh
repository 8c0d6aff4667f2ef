#!/bin/sh
# SPDX-License-Identifier: MIT
# work-sqlite [COMMAND...]: Debian's sqlite3 makes two tables in memory, KREPRO_ROWS rows (default 2000) in one of them,
# an index, and a join; run by the command if there is one: "roi-exec", or "pagetrace -o FILE --". Prints what the join
# gives, and its checksum, as JSON.
rows=${KREPRO_ROWS:-2000} seed=${KREPRO_SEED:-1}
folder=$(mktemp -d) || exit 1
trap 'rm -rf "$folder"' EXIT
cat >"$folder/sql" <<SQL
create table item (id integer primary key, kind integer, amount integer, note text);
create table kind (id integer primary key, name text);
with recursive n(i) as (select 0 union all select i + 1 from n where i < 49)
insert into kind select i, 'kind ' || i from n;
begin;
with recursive n(i, x) as (
  select 0, $seed % 2147483647 union all select i + 1, (x * 48271 + 11) % 2147483647 from n where i < $rows - 1)
insert into item select i, x % 50, x / 50 % 1000, 'note ' || x from n;
commit;
create index item_kind on item (kind, amount);
select kind.name, count(*), sum(item.amount), max(item.note) from item join kind on kind.id = item.kind
where item.amount >= 100 group by kind.id order by 3 desc, 1;
select count(*), sum(amount) from item;
SQL
"$@" /usr/bin/sqlite3 -batch :memory: <"$folder/sql" >"$folder/out" || exit
stored=$(tail -n 1 "$folder/out")
[ "${stored%%|*}" -eq "$rows" ] || exit 3
sum=$(sha256sum <"$folder/out") bytes=$(wc -c <"$folder/out") || exit 1
echo "{\"workload\": \"sqlite\", \"rows\": $rows, \"sum\": ${stored#*|}, \"bytes\": $bytes, \"checksum\": \"${sum%% *}\"}"
