// cflags: -DSQLITE_ENABLE_SESSION -DSQLITE_ENABLE_PREUPDATE_HOOK
// libraries: -l:libsqlite3.a -lm
// prints: applied 7
// The changes of a session, applied to another database.
#include <sqlite3.h>
#include <stdio.h>

static int show(void *context, int count, char **values, char **names) {
    (void)context, (void)count, (void)names;
    printf("applied %s\n", values[0]);
    return 0;
}

static int conflict(void *context, int kind, sqlite3_changeset_iter *at) {
    (void)context, (void)kind, (void)at;
    return SQLITE_CHANGESET_ABORT;
}

int main(void) {
    sqlite3 *from, *to;
    sqlite3_session *session;
    int size = 0;
    void *changes = NULL;
    if (sqlite3_open(":memory:", &from) || sqlite3_open(":memory:", &to)) return 1;
    sqlite3_exec(from, "CREATE TABLE t(n INTEGER PRIMARY KEY)", NULL, NULL, NULL);
    sqlite3_exec(to, "CREATE TABLE t(n INTEGER PRIMARY KEY)", NULL, NULL, NULL);
    if (sqlite3session_create(from, "main", &session) || sqlite3session_attach(session, NULL)) return 1;
    sqlite3_exec(from, "INSERT INTO t VALUES (7)", NULL, NULL, NULL);
    if (sqlite3session_changeset(session, &size, &changes)) return 1;
    if (sqlite3changeset_apply(to, size, changes, NULL, conflict, NULL)) return 1;
    return sqlite3_exec(to, "SELECT n FROM t", show, NULL, NULL);
}
