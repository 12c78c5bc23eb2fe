// JSON values: a small class hierarchy, shared by reference, with checked access.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <ostream>
#include <stdexcept>
#include <string>
#include <vector>

class Value;
using Ref = std::shared_ptr<const Value>;

// What went wrong and where; thrown through many frames that own things.
class Error : public std::runtime_error {
public:
    Error(const std::string &what, size_t position) : std::runtime_error(what), position_(position) {}
    size_t position() const { return position_; }

private:
    size_t position_;
};

struct TypeError : Error {
    using Error::Error;
};

class Value {
public:
    virtual ~Value() = default;
    virtual const char *type() const = 0;
    virtual void write(std::ostream &out, int indent) const = 0;
    virtual bool truthy() const { return true; }
    virtual bool equals(const Value &other) const = 0;
    // Never called by the program: a slot of the vtable that liveness alone can't drop.
    virtual size_t weight() const { return 1; }
};

class Null final : public Value {
public:
    const char *type() const override { return "null"; }
    void write(std::ostream &out, int) const override { out << "null"; }
    bool truthy() const override { return false; }
    bool equals(const Value &other) const override { return dynamic_cast<const Null *>(&other) != nullptr; }
};

// Scalars differ by their payload only.
template <typename T> class Scalar final : public Value {
public:
    explicit Scalar(T v) : v_(std::move(v)) {}
    const T &get() const { return v_; }
    const char *type() const override;
    void write(std::ostream &out, int indent) const override;
    bool truthy() const override { return v_ != T(); }
    bool equals(const Value &other) const override {
        auto same = dynamic_cast<const Scalar<T> *>(&other);
        return same != nullptr && same->v_ == v_;
    }

private:
    T v_;
};

using Boolean = Scalar<bool>;
using Number = Scalar<double>;
using Text = Scalar<std::string>;

class Array final : public Value {
public:
    std::vector<Ref> items;
    const char *type() const override { return "array"; }
    void write(std::ostream &out, int indent) const override;
    bool truthy() const override { return !items.empty(); }
    bool equals(const Value &other) const override;
    size_t weight() const override;
};

class Object final : public Value {
public:
    std::map<std::string, Ref> members;
    const char *type() const override { return "object"; }
    void write(std::ostream &out, int indent) const override;
    bool truthy() const override { return !members.empty(); }
    bool equals(const Value &other) const override;
    size_t weight() const override;
};

// A checked downcast with an error that names both types.
template <typename T> const T &as(const Ref &v, size_t position) {
    auto *p = dynamic_cast<const T *>(v.get());
    if (p == nullptr) {
        static const T sample{};
        throw TypeError(std::string("expected ") + sample.type() + ", found " + v->type(), position);
    }
    return *p;
}
template <> const Number &as<Number>(const Ref &v, size_t position);
template <> const Text &as<Text>(const Ref &v, size_t position);

void write_quoted(std::ostream &out, const std::string &s);
Ref parse_json(const std::string &text);

inline Ref null() { return std::make_shared<Null>(); }
inline Ref boolean(bool b) { return std::make_shared<Boolean>(b); }
inline Ref number(double d) { return std::make_shared<Number>(d); }
inline Ref text(std::string s) { return std::make_shared<Text>(std::move(s)); }
