// libraries: -l:libsqlite3.a -lm
// prints: total 60 of 3
// A database in memory: nearly all of the library.
#include <sqlite3.h>
#include <stdio.h>

static int show(void *context, int count, char **values, char **names) {
    (void)context;
    (void)names;
    if (count == 2) printf("total %s of %s\n", values[0], values[1]);
    return 0;
}

int main(void) {
    sqlite3 *db;
    char *message = NULL;
    if (sqlite3_open(":memory:", &db) != SQLITE_OK) return 1;
    int failed = sqlite3_exec(db,
                              "CREATE TABLE t(n INTEGER); INSERT INTO t VALUES (10), (20), (30);"
                              "SELECT sum(n), count(*) FROM t;",
                              show, NULL, &message) != SQLITE_OK;
    if (message) fprintf(stderr, "%s\n", message);
    sqlite3_close(db);
    return failed;
}
