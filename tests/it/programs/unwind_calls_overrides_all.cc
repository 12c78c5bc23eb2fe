#include <cstdlib>
#include <memory_resource>
struct Pool : std::pmr::memory_resource {
    void *do_allocate(size_t n, size_t) override; void do_deallocate(void *p, size_t, size_t) override { std::free(p); }
    bool do_is_equal(const memory_resource &o) const noexcept override { return this == &o; }
};
void *Pool::do_allocate(size_t n, size_t) { if (n > 5000) throw 5; return std::malloc(n); }
static Pool pool;
int main(int argc, char **) { std::pmr::set_default_resource(&pool); return argc > 2; }
