#!/bin/sh
# The C++ program: values, every operator and function, errors thrown through several frames, and nested exceptions.
set -eu
ln -s "$1" query
cat >doc.json <<'JSON'
{"name": "répertoire \u20ac", "list": [3, 1, 2.5, -7e2], "words": ["b", "a", "c"], "deep": {"x": {"y": [true, false, null]}},
 "text": "{\"inner\": [1, 2]}", "broken": "[1, 2", "escapes": "tab\tquote\"back\\slash\u0001"}
JSON
cat >lines <<'Q'
doc
doc.name + '!'
len(doc.list) * 2 + 1
sum(doc.list) / 4
sort(doc.words)
sort(doc.list)
doc.list[-1] % 7
doc.deep.x.y[0] && 'yes' || 'no'
doc.deep.x.y[2] || doc.missing || 'default'
let squares = each(doc.list, v, v * v)
squares
each(each(doc.words, w, upper(w)), w, w + w)
keys(doc)
parse(doc.text).inner[1] == 2
parse(doc.broken)
split('a,b,,c', ',')
split('a', 'xx')
sqrt(2) + floor(2.7) + abs(0 - 3)
1 / 0
doc.list[10]
doc.words + 1
doc.name.x
unknown
nothing(1)
len(1, 2)
(1 + 2
type(doc) + type(1) + type('s') + type(doc.list) + type(doc.nope) + type(1 < 2)
1 + 2 * 3 == 7 && 2 < 3
doc.deep == doc.deep
'unterminated
sum(doc.words)
Q
./query doc.json <lines || echo "status $?"
./query 2>&1 || echo "status $?"
./query missing.json </dev/null || echo "status $?"
printf '[1, {"a": tru}]' >bad.json
./query bad.json </dev/null || echo "status $?"
awk 'BEGIN { for (i = 0; i < 300; i++) printf "["; print 1 }' >deep.json
./query deep.json </dev/null || echo "status $?"
