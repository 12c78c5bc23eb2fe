#!/bin/sh
# Lua: every standard library, coroutines, error handling, metamethods, the collector, loading code, and the REPL.
set -eu
ln -s "$1" lua
cat >all.lua <<'LUA'
print(_VERSION)
-- libraries as data: every function of every library, called by what it is named, exists
for _, lib in ipairs{"coroutine", "debug", "io", "math", "os", "package", "string", "table", "utf8"} do
  local names = {}
  for k, v in pairs(_G[lib]) do names[#names + 1] = k .. ":" .. type(v) end
  table.sort(names)
  print(lib, table.concat(names, " "))
end
-- coroutines
local gen = coroutine.wrap(function(n) for i = 1, n do coroutine.yield(i * i) end return "end" end)
print(gen(3), gen(), gen(), gen())
local co = coroutine.create(function() local x <close> = setmetatable({}, {__close = function() print "closed" end}); coroutine.yield(1); error "inside" end)
print(coroutine.resume(co)); print(coroutine.status(co), coroutine.isyieldable(co)); print(coroutine.resume(co)); print(coroutine.close(co))
-- errors
print(select(2, pcall(error, {code = 7})).code); print(select("#", pcall(error)))
print(xpcall(function() local a = nil; return a.b end, function(m) return "handled: " .. m end))
print(pcall(string.rep)); print(pcall(function() return 1 < "x" end)); print(pcall(function() return #5 end))
print(pcall(string.format, "%d", 1.5))
local function deep(n) return n == 0 and 0 or 1 + deep(n - 1) end
print(deep(10000)); print((select(2, pcall(function() local function f() return f() + 1 end return f() end))):match("stack overflow"))
-- strings
print(("hello world"):gsub("o", "0")); print(("a,b,,c"):find(",", 1, true)); print(string.format("%5.2f|%-8s|%q|%x|%a", 3.14159, "ab", "q\n\0", 255, 0.5))
for k, v in ("k1=v1;k2=v2"):gmatch("(%w+)=(%w+)") do io.write(k, "->", v, " ") end print()
print(("x"):rep(3, "-"), ("abc"):reverse(), ("abc"):byte(1, -1), ("%bxy"):len(), ("f(a(b)c)d"):match("%b()"), ("THE (quick) fox"):find("%((%a+)%)"))
local packed = string.pack("<i4 z s1 d", -5, "zero", "one", 2.5); print(#packed, string.unpack("<i4 z s1 d", packed)); print(string.packsize("i4i8"))
print(load(string.dump(function(a) return a * 2 end), "dumped", "b")(21))
-- tables
local t = {5, 2, 8, 1}; table.sort(t, function(a, b) return a > b end); print(table.concat(t, ",")); table.insert(t, 2, 9); print(table.remove(t, 1), table.unpack(t)); print(table.concat(table.move(t, 1, 3, 2), " ")); print(table.pack(1, nil, 3).n)
print(next({}), rawlen{1, 2}, rawequal(t, t), select(-1, 1, 2, 3))
-- numbers
print(7 // 2, -7 // 2, 7 % -3, 7.5 // 2, 2 ^ 10, 10 / 2, 3 | 4, 6 ~ 3, ~0, 1 << 62, 256 >> 4, math.maxinteger + 1 == math.mininteger)
print(math.type(1), math.type(1.0), math.tointeger(3.0), math.ult(1, -1), math.fmod(-5, 3), math.floor(-2.5), math.ceil(2.1), math.huge, -math.huge)
print(string.format("%.10g %.10g %.10g", math.sin(1), math.exp(1), math.log(8, 2)), tonumber("0x1p4"), tonumber("z", 36), tonumber("1e1"), tostring(1e15), 2^53)
math.randomseed(42); print(math.random(1, 100) == math.random(1, 100), math.random(0) ~= nil)
-- metamethods
local V = {}; V.__index = V
for _, m in ipairs{"add", "sub", "mul", "div", "mod", "pow", "unm", "idiv", "band", "bor", "bxor", "shl", "shr", "bnot", "concat"} do V["__" .. m] = function() return m end end
V.__len = function() return 42 end V.__eq = function() return true end V.__lt = function() return true end V.__le = function() return false end
V.__call = function(_, ...) return "called", ... end V.__tostring = function() return "V!" end V.__name = "Vee"
V.__newindex = function(s, k, v) rawset(s, k, v .. "!") end V.__pairs = function() return function(_, k) if not k then return 1, "p" end end, nil, nil end
local a, b = setmetatable({}, V), setmetatable({}, V)
print(a + b, a - b, a * b, a / b, a % b, a ^ b, -a, a // b, a & b, a | b, a ~ b, a << b, a >> b, ~a, a .. b, #a, a == b, a < b, a <= b, a(1, 2), tostring(a))
a.x = "y"; print(a.x); for k, v in pairs(a) do print(k, v) end
-- goto, integer for, repeat, varargs, closures
for i = 1, 3 do for j = 1, 3 do if j == 2 then goto continue end io.write(i, ":", j, " ") ::continue:: end end print()
do local i = 1; repeat local done = i >= 3; i = i + 1 until done; print(i) end
local fs = {}; for i = 1, 3 do fs[i] = function() i = i + 1; return i end end print(fs[1](), fs[1](), fs[2]())
-- utf8
print(utf8.char(72, 228, 8364, 128512), utf8.len("häß"), utf8.codepoint("€", 1), utf8.offset("aäb", 3)); for p, c in utf8.codes("aé") do io.write(p, "=", c, " ") end print(utf8.len("\xff"))
-- io
local f = assert(io.open("t.txt", "w")); f:write("line 1\n", 2, "\n", 3.5, "\nrest of it"); f:seek("set", 0); f:setvbuf("full", 64); f:close()
for l in io.lines("t.txt") do io.write("[", l, "]") end print()
f = io.open("t.txt"); print(f:read("l", "n", "n", "L", "a")); print(f:seek("end"), f:read(1), io.type(f)); f:close(); print(io.type(f), tostring(f)); print(io.open("missing/file"))
local p = io.popen("echo from a pipe; exit 3"); print(p:read("a"), p:close())
io.output("o.txt"); io.write("via default"); io.close(); io.output(io.stdout); print(io.open("o.txt"):read("a")); local tmp = io.tmpfile(); tmp:write("x"); tmp:close()
-- os
print(os.time{year = 2020, month = 2, day = 30, hour = 12} - os.time{year = 2020, month = 3, day = 1, hour = 12}, os.date("!%Y-%m-%d %H:%M:%S", 86400), os.date("!*t", 0).year, os.getenv("NOT_SET"), type(os.clock()), os.difftime(5, 3))
print(os.rename("o.txt", "p.txt"), os.remove("p.txt"), os.remove("p.txt")); print(os.execute("exit 5")); print(os.setlocale("C"), type(os.tmpname()))
-- load, require, environments
print(load("syntax error here")); print(load("return x + y", "chunk", "t", {x = 1, y = 2})()); local parts = {"return ", "1 + ", "1"}; local i = 0; print(load(function() i = i + 1; return parts[i] end)())
package.preload.mine = function(n, x) return {name = n, extra = x} end; print(require("mine").name, select(2, require("mine"))); print((select(2, pcall(require, "no.such")):gsub("\n.*", "")))
io.open("mod.lua", "w"):write("return {v = ...}"):close(); print(dofile("mod.lua").v, require("mod").v, package.searchpath("mod", "./?.lua")); print((select(2, pcall(package.loadlib, "./none.so", "f"))))
-- collector
local weak = setmetatable({}, {__mode = "k"}); weak[{}] = 1; local finalized = false; setmetatable({}, {__gc = function() finalized = true end}); collectgarbage(); collectgarbage("generational"); collectgarbage("step"); collectgarbage("incremental"); print(next(weak), finalized, collectgarbage("isrunning"))
-- debug
print(debug.getinfo(1, "l").currentline, debug.getinfo(print).what, (debug.traceback("tb"):gsub("\n.*", ""))); local hooks = 0; debug.sethook(function() hooks = hooks + 1 end, "l"); local z = 1; z = z + 1; debug.sethook(); print(hooks > 0, debug.getlocal(1, 1) ~= nil, debug.getupvalue(fs[1], 1), debug.getmetatable("").__index == string)
warn("@on"); warn("to ", "stderr")
LUA
./lua all.lua 2>&1
printf 'x = 1 +\n2\nprint(x)\n= x\nerror("repl")\nfor i=1,2 do\nio.write(i)\nend\n' | ./lua -i 2>&1
./lua -e 'print(...)' - one two </dev/null 2>&1
./lua -v -l table -W -e 'local t = setmetatable({}, {__tostring = function() return "custom" end}) error(t)' 2>&1 || echo "status $?"
./lua nosuchfile.lua 2>&1 || echo "status $?"
./lua -x 2>&1 || echo "status $?"
./lua -e 'os.exit(false, true)' || echo "status $?"
