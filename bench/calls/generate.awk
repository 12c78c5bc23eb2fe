# A program of 5 to 16 KB: operations in pairs, two tables of them, of which one member is called and the other is not. It is what
# the default level follows, within its budget of live code.
BEGIN {
    pairs = 24
    print "#include <stdio.h>\n#include <stdlib.h>"
    for (i = 0; i < 2 * pairs; i++) {
        printf "static int step%d(int x, int *p) {\n    for (int k = 0; k < x; k++) p[k %% 4] += k * %d;\n", i, i + 3
        printf "    if (x > %d) p[0] -= x / %d;\n", i % 17, i + 2
        printf "    return p[1] + %s;\n}\n", i % 3 ? "step" (i - 1) "(x / 2, p)" : "x"
    }
    print "struct operation { int (*run)(int, int *), (*undo)(int, int *); };"
    print "static const struct operation operations[] = {"
    for (i = 0; i < pairs; i++) printf "    {step%d, step%d},\n", 2 * i, 2 * i + 1
    print "};"
    print "int main(int argc, char **argv) {\n    int p[4] = {0}, sum = 0;"
    print "    for (int i = 1; i < argc; i++) {\n        int n = atoi(argv[i]);"
    printf "        sum += operations[(unsigned)n %% %d].run(n %% 50, p);\n    }\n", pairs
    print "    printf(\"%d %d %d %d %d\\n\", sum, p[0], p[1], p[2], p[3]);\n    return 0;\n}"
}
