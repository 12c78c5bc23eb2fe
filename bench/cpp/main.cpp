// query FILE: evaluates each line of standard input on the JSON document in FILE; `let NAME = EXPRESSION` binds.
#include "expression.h"

#include <fstream>
#include <iostream>
#include <sstream>

namespace {

// Runs on every way out of main, also when an exception passes.
struct Tally {
    int good = 0, bad = 0;
    ~Tally() { std::cout << good << " evaluated, " << bad << " failed\n"; }
};

void report(const std::exception &e, int depth) {
    std::cout << std::string(size_t(depth) * 2, ' ') << "error: " << e.what();
    if (auto *at = dynamic_cast<const Error *>(&e)) std::cout << " (at " << at->position() << ")";
    std::cout << '\n';
    try {
        std::rethrow_if_nested(e);
    } catch (const std::exception &inner) {
        report(inner, depth + 1);
    }
}

int run(const char *path) {
    std::ifstream in(path);
    in.exceptions(std::ios::badbit);
    if (!in) throw std::runtime_error(std::string("cannot open ") + path);
    std::ostringstream all;
    all << in.rdbuf();
    Tally tally;
    Scope scope;
    scope.set("doc", parse_json(all.str()));
    for (std::string line; std::getline(std::cin, line);) {
        if (line.empty()) continue;
        try {
            std::string name;
            if (line.compare(0, 4, "let ") == 0) {
                size_t eq = line.find(" = ");
                if (eq == std::string::npos) throw Error("let needs =", 4);
                name = line.substr(4, eq - 4);
                line = line.substr(eq + 3);
            }
            Ref v = parse_expression(line)->eval(scope);
            if (!name.empty()) scope.set(name, v);
            v->write(std::cout, 0);
            std::cout << '\n';
            tally.good++;
        } catch (const std::exception &e) {
            report(e, 0);
            tally.bad++;
        }
    }
    return tally.bad == 0 ? 0 : 3;
}

} // namespace

int main(int argc, char **argv) {
    if (argc != 2) {
        std::cerr << "usage: query FILE <expressions\n";
        return 2;
    }
    try {
        return run(argv[1]);
    } catch (const std::exception &e) {
        report(e, 0);
        return 1;
    }
}
