"""tools/check_classes.py: how it counts, and what it refuses."""

from __future__ import annotations

from types import ModuleType

import pytest

from tests.python.tools.loading import load_tool


@pytest.fixture(scope="module")
def tool() -> ModuleType:
    return load_tool("check_classes")


CPP = """
#define LIST(X) X(a) X(b)
/// A class; with words, and (brackets).
class Walk final : public Base<int, 2>, Other {
public:
  explicit Walk(int a, std::vector<int> b = {}) : a(a), b{std::move(b)} { run(); }
  ~Walk() override;
  Walk &operator=(const Walk &) = delete;
  template <typename T> std::map<int, T> find(T, int) const;
  std::map<int, std::pair<int, int>> numbers, others; // one, two
  Status (*call)(int, const char *) = nullptr;
  std::function<void(int, int)> done;
  int sizes[4] = {1, 2, 3, 4}, count = 0;
  const char *text = "; int no, such, member;";
  struct {
    int width, height;
  } extent{};
  struct Nested {
    int x, y, z;
    int area() const { return x * y; }
  };
  enum class Kind : uint8_t { One, Two, Three };
  using Pair = std::pair<int, int>;
  static constexpr int kMost = 3;
  LIST(MEMBER)

private:
  friend struct Other;
  bool is_done = false;
};
"""


def test_members_and_methods_of_cpp_are_counted(tool: ModuleType) -> None:
    counts = {name: (methods, members) for _, name, methods, members in tool.count_cpp(CPP)}
    assert counts == {"Walk": (4, 10), "Nested": (1, 3)}


PYTHON = """
class Walk(Base):
    kind: ClassVar[str]
    size: int = forwarded("_tree.size")
    count: int
    note: str = ""

    def __init__(self, a):
        self.a, self.count = a, 1
        self.b: int = 2

    @property
    def twice(self):
        other.c = self.a[0] = 2
        return 2 * self.count
"""


def test_attributes_and_methods_of_python_are_counted(tool: ModuleType) -> None:
    assert list(tool.count_python(PYTHON)) == [(2, "Walk", 2, 4)]


@pytest.mark.parametrize(("members", "methods"), [(20, 80), (21, 80), (20, 81)])
def test_what_exceeds_a_limit_is_named(tool: ModuleType, members: int, methods: int) -> None:
    body = "".join(f"  int m{i};\n" for i in range(members)) + "".join(f"  void f{i}();\n" for i in range(methods))
    messages = list(tool.check("src/a.h", f"\nstruct Large {{\n{body}}};\n"))
    expected = []
    if methods > 80:
        expected = ["src/a.h:2: Large has 81 methods, more than 80: make a class for each subject"]
    if members > 20:
        expected = ["src/a.h:2: Large has 21 data members, more than 20: make a struct for each subject"]
    assert messages == expected


def test_the_sources_pass(tool: ModuleType) -> None:
    assert tool.main() == 0
