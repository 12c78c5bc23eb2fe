// Nodes and the parser of expressions: precedence climbing over tokens.
#include "expression.h"

#include <cctype>
#include <cmath>
#include <cstdlib>

Ref Scope::get(const std::string &name, size_t position) const {
    for (const Scope *s = this; s != nullptr; s = s->outer_) {
        auto found = s->names_.find(name);
        if (found != s->names_.end()) return found->second;
    }
    throw Error("unknown name " + name, position);
}

namespace {

struct Literal final : Node {
    Literal(size_t at, Ref v) : Node(at), v(std::move(v)) {}
    Ref eval(const Scope &) const override { return v; }
    Ref fold() const override { return v; }
    Ref v;
};

struct Name final : Node {
    Name(size_t at, std::string n) : Node(at), n(std::move(n)) {}
    Ref eval(const Scope &scope) const override { return scope.get(n, position); }
    std::string n;
};

struct Member final : Node {
    Member(size_t at, Tree of, std::string key) : Node(at), of(std::move(of)), key(std::move(key)) {}
    Ref eval(const Scope &scope) const override {
        Ref v = of->eval(scope);
        auto &members = as<Object>(v, position).members;
        auto found = members.find(key);
        return found == members.end() ? null() : found->second;
    }
    Tree of;
    std::string key;
};

struct Index final : Node {
    Index(size_t at, Tree of, Tree index) : Node(at), of(std::move(of)), index(std::move(index)) {}
    Ref eval(const Scope &scope) const override {
        Ref v = of->eval(scope);
        double i = as<Number>(index->eval(scope), position).get();
        auto &items = as<Array>(v, position).items;
        if (i < 0) i += double(items.size());
        try {
            return items.at(size_t(i));
        } catch (const std::out_of_range &) {
            throw Error("index out of range", position);
        }
    }
    Tree of, index;
};

struct Call final : Node {
    Call(size_t at, const Builtin *f) : Node(at), f(f) {}
    Ref eval(const Scope &scope) const override {
        std::vector<Ref> values;
        for (auto &a : args) values.push_back(a->eval(scope));
        return (*f)(values, position);
    }
    const Builtin *f;
    std::vector<Tree> args;
};

// each(list, name, expression)
struct Each final : Node {
    Each(size_t at, Tree list, std::string name, Tree body)
        : Node(at), list(std::move(list)), name(std::move(name)), body(std::move(body)) {}
    Ref eval(const Scope &scope) const override {
        auto out = std::make_shared<Array>();
        Ref source = list->eval(scope);
        for (auto &v : as<Array>(source, position).items) {
            Scope inner(&scope);
            inner.set(name, v);
            out->items.push_back(body->eval(inner));
        }
        return out;
    }
    Tree list;
    std::string name;
    Tree body;
};

struct Operator {
    const char *sign;
    int precedence;
    Ref (*apply)(const Ref &, const Ref &, size_t);
};

template <typename F> Ref arithmetic(const Ref &a, const Ref &b, size_t at, F f) {
    return number(f(as<Number>(a, at).get(), as<Number>(b, at).get()));
}

Ref add(const Ref &a, const Ref &b, size_t at) {
    if (auto *t = dynamic_cast<const Text *>(a.get())) return text(t->get() + as<Text>(b, at).get());
    return arithmetic(a, b, at, [](double x, double y) { return x + y; });
}
Ref subtract(const Ref &a, const Ref &b, size_t at) {
    return arithmetic(a, b, at, [](double x, double y) { return x - y; });
}
Ref multiply(const Ref &a, const Ref &b, size_t at) {
    return arithmetic(a, b, at, [](double x, double y) { return x * y; });
}
Ref divide(const Ref &a, const Ref &b, size_t at) {
    return arithmetic(a, b, at, [at](double x, double y) {
        if (y == 0) throw Error("division by zero", at);
        return x / y;
    });
}
Ref remainder_of(const Ref &a, const Ref &b, size_t at) {
    return arithmetic(a, b, at, [](double x, double y) { return std::fmod(x, y); });
}
Ref smaller(const Ref &a, const Ref &b, size_t at) {
    return boolean(as<Number>(a, at).get() < as<Number>(b, at).get());
}
Ref same(const Ref &a, const Ref &b, size_t) { return boolean(a->equals(*b)); }
Ref both(const Ref &a, const Ref &b, size_t) { return a->truthy() ? b : a; }
Ref either(const Ref &a, const Ref &b, size_t) { return a->truthy() ? a : b; }

const Operator operators[] = {
    {"||", 1, either}, {"&&", 2, both},     {"==", 3, same},  {"<", 4, smaller},      {"+", 5, add},
    {"-", 5, subtract}, {"*", 6, multiply}, {"/", 6, divide}, {"%", 6, remainder_of},
};

struct Binary final : Node {
    Binary(size_t at, const Operator &op, Tree a, Tree b) : Node(at), op(op), a(std::move(a)), b(std::move(b)) {}
    Ref eval(const Scope &scope) const override { return op.apply(a->eval(scope), b->eval(scope), position); }
    Ref fold() const override {
        Ref x = a->fold(), y = b->fold();
        return x && y ? op.apply(x, y, position) : nullptr;
    }
    const Operator &op;
    Tree a, b;
};

class Parser {
public:
    explicit Parser(const std::string &text) : text_(text) {}

    Tree whole() {
        Tree t = binary(0);
        space();
        if (at_ != text_.size()) throw Error("trailing characters", at_);
        return t;
    }

private:
    const std::string &text_;
    size_t at_ = 0;

    void space() {
        while (at_ < text_.size() && text_[at_] == ' ') at_++;
    }
    bool take(const char *sign) {
        space();
        std::string s(sign);
        if (text_.compare(at_, s.size(), s) != 0) return false;
        at_ += s.size();
        return true;
    }
    void expect(const char *sign) {
        if (!take(sign)) throw Error(std::string("expected ") + sign, at_);
    }

    Tree binary(int minimum) {
        Tree left = postfix();
        for (;;) {
            const Operator *found = nullptr;
            size_t at = at_;
            for (auto &op : operators)
                if (op.precedence > minimum && take(op.sign)) {
                    found = &op;
                    break;
                }
            if (found == nullptr) return left;
            Tree node = std::make_unique<Binary>(at, *found, std::move(left), binary(found->precedence));
            Ref folded = node->fold();
            left = folded ? std::make_unique<Literal>(at, folded) : std::move(node);
        }
    }

    Tree postfix() {
        Tree t = primary();
        for (;;) {
            size_t at = at_;
            if (take(".")) {
                t = std::make_unique<Member>(at, std::move(t), name());
            } else if (take("[")) {
                Tree index = binary(0);
                expect("]");
                t = std::make_unique<Index>(at, std::move(t), std::move(index));
            } else {
                return t;
            }
        }
    }

    std::string name() {
        space();
        size_t begin = at_;
        while (at_ < text_.size() && (std::isalnum(static_cast<unsigned char>(text_[at_])) || text_[at_] == '_')) at_++;
        if (begin == at_) throw Error("expected a name", at_);
        return text_.substr(begin, at_ - begin);
    }

    Tree primary() {
        space();
        size_t at = at_;
        if (take("(")) {
            Tree t = binary(0);
            expect(")");
            return t;
        }
        if (at_ < text_.size() && text_[at_] == '\'') {
            size_t end = text_.find('\'', at_ + 1);
            if (end == std::string::npos) throw Error("unterminated string", at);
            at_ = end + 1;
            return std::make_unique<Literal>(at, text(text_.substr(at + 1, end - at - 1)));
        }
        if (at_ < text_.size() && (std::isdigit(static_cast<unsigned char>(text_[at_])) || text_[at_] == '-')) {
            char *end = nullptr;
            double d = std::strtod(text_.c_str() + at_, &end);
            at_ = static_cast<size_t>(end - text_.c_str());
            return std::make_unique<Literal>(at, number(d));
        }
        std::string n = name();
        if (!take("(")) return std::make_unique<Name>(at, n);
        if (n == "each") return each(at);
        auto found = builtins().find(n);
        if (found == builtins().end()) throw Error("unknown function " + n, at);
        auto call = std::make_unique<Call>(at, &found->second);
        if (take(")")) return call;
        do call->args.push_back(binary(0));
        while (take(","));
        expect(")");
        return call;
    }

    Tree each(size_t at) {
        Tree list = binary(0);
        expect(",");
        std::string n = name();
        expect(",");
        Tree body = binary(0);
        expect(")");
        return std::make_unique<Each>(at, std::move(list), n, std::move(body));
    }
};

} // namespace

Tree parse_expression(const std::string &text) { return Parser(text).whole(); }
