// libraries: -l:libsqlite3.a -lm
// prints: complete 1, incomplete 0
// The smallest question that one can put to a library of a megabyte.
#include <sqlite3.h>
#include <stdio.h>

int main(void) {
    printf("complete %d, ", sqlite3_complete("SELECT count(*) FROM t; "));
    printf("incomplete %d\n", sqlite3_complete("CREATE TRIGGER x BEFORE INSERT ON t BEGIN SELECT 1;"));
    return 0;
}
