// libraries: -l:liblua5.4.a -lm -ldl
// cflags: -I/usr/include/lua5.4
// prints: 6 * 7 = 42
// A state and one multiplication: the core without the standard libraries or the compiler.
#include <lauxlib.h>
#include <lua.h>
#include <stdio.h>

int main(void) {
    lua_State *state = luaL_newstate();
    if (!state) return 1;
    lua_pushinteger(state, 6);
    lua_pushinteger(state, 7);
    lua_arith(state, LUA_OPMUL);
    printf("6 * 7 = %lld\n", (long long)lua_tointeger(state, -1));
    lua_close(state);
    return 0;
}
