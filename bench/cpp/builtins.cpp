// The functions that expressions can call, registered by static constructors.
#include "expression.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <sstream>

namespace {

std::map<std::string, Builtin> &registry() {
    static std::map<std::string, Builtin> map;
    return map;
}

// A global object of this type adds a function before main runs.
struct Register {
    Register(const char *name, size_t arity, Builtin f) {
        registry()[name] = [name, arity, f](const std::vector<Ref> &args, size_t at) {
            if (args.size() != arity) {
                std::ostringstream what;
                what << name << " takes " << arity << " arguments, not " << args.size();
                throw Error(what.str(), at);
            }
            return f(args, at);
        };
    }
};

using Args = const std::vector<Ref> &;

template <double (*F)(double)> Ref map_number(Args a, size_t at) { return number(F(as<Number>(a[0], at).get())); }

bool less(const Ref &a, const Ref &b) {
    auto *x = dynamic_cast<const Number *>(a.get());
    auto *y = dynamic_cast<const Number *>(b.get());
    if (x && y) return x->get() < y->get();
    return as<Text>(a, 0).get() < as<Text>(b, 0).get();
}

Register r_sqrt("sqrt", 1, map_number<std::sqrt>);
Register r_floor("floor", 1, map_number<std::floor>);
Register r_abs("abs", 1, map_number<std::fabs>);
Register r_type("type", 1, [](Args a, size_t) { return text(a[0]->type()); });
Register r_len("len", 1, [](Args a, size_t at) {
    if (auto *t = dynamic_cast<const Text *>(a[0].get())) return number(double(t->get().size()));
    if (auto *o = dynamic_cast<const Object *>(a[0].get())) return number(double(o->members.size()));
    return number(double(as<Array>(a[0], at).items.size()));
});
Register r_sum("sum", 1, [](Args a, size_t at) {
    auto &items = as<Array>(a[0], at).items;
    return number(std::accumulate(items.begin(), items.end(), 0.0,
                                  [at](double s, const Ref &v) { return s + as<Number>(v, at).get(); }));
});
Register r_sort("sort", 1, [](Args a, size_t at) -> Ref {
    auto copy = std::make_shared<Array>(as<Array>(a[0], at));
    std::stable_sort(copy->items.begin(), copy->items.end(), less);
    return copy;
});
Register r_keys("keys", 1, [](Args a, size_t at) -> Ref {
    auto out = std::make_shared<Array>();
    for (auto &m : as<Object>(a[0], at).members) out->items.push_back(text(m.first));
    return out;
});
Register r_upper("upper", 1, [](Args a, size_t at) {
    std::string s = as<Text>(a[0], at).get();
    std::transform(s.begin(), s.end(), s.begin(), [](unsigned char c) { return char(std::toupper(c)); });
    return text(s);
});
Register r_split("split", 2, [](Args a, size_t at) -> Ref {
    auto out = std::make_shared<Array>();
    std::istringstream in(as<Text>(a[0], at).get());
    auto &separator = as<Text>(a[1], at).get();
    if (separator.size() != 1) throw Error("split: one character, please", at);
    for (std::string piece; std::getline(in, piece, separator[0]);) out->items.push_back(text(piece));
    return out;
});
Register r_parse("parse", 1, [](Args a, size_t at) {
    try {
        return parse_json(as<Text>(a[0], at).get());
    } catch (const TypeError &) {
        throw;
    } catch (const Error &e) {
        // A position inside a string means nothing outside of it.
        std::throw_with_nested(Error("parse failed", at));
    }
});

} // namespace

const std::map<std::string, Builtin> &builtins() { return registry(); }
