// Expressions over JSON: a tree of nodes with virtual evaluation, and a registry of functions.
#pragma once

#include "value.h"

#include <functional>
#include <unordered_map>

class Scope {
public:
    explicit Scope(const Scope *outer = nullptr) : outer_(outer) {}
    void set(const std::string &name, Ref v) { names_[name] = std::move(v); }
    Ref get(const std::string &name, size_t position) const;

private:
    const Scope *outer_;
    std::unordered_map<std::string, Ref> names_;
};

class Node {
public:
    explicit Node(size_t position) : position(position) {}
    virtual ~Node() = default;
    virtual Ref eval(const Scope &scope) const = 0;
    // Constant folding: a node that needs no scope returns its value, others nothing.
    virtual Ref fold() const { return nullptr; }
    const size_t position;
};
using Tree = std::unique_ptr<Node>;

using Builtin = std::function<Ref(const std::vector<Ref> &, size_t)>;
const std::map<std::string, Builtin> &builtins();

Tree parse_expression(const std::string &text);
