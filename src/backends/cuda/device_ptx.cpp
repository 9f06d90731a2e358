// device_ptx.cpp: divides PTX by its entries
//
// In:   PTX as LLVM writes it.
// Out:  several such texts, each with the directives, some of the entries, and the functions and variables that these use.
#include "backends/cuda/device_ptx.h"

#include <algorithm>
#include <cctype>
#include <map>
#include <set>

namespace qd::cuda {
namespace {

// Shorter parts are not worth a thread.
constexpr size_t kLeastBytes = 12 << 10;

/// A statement outside of functions.
struct Item {
  std::string_view text;
  std::string_view name; ///< of a function or a variable; empty: a directive
  bool isEntry = false;
  std::set<size_t> uses; ///< items with the names in the text
};

bool isWord(char c) { return std::isalnum(static_cast<unsigned char>(c)) || c == '_' || c == '$' || c == '%' || c == '.'; }

/// The end of the statement at `at`: behind the line of a directive, the semicolon of a declaration, or the body of a function. Braces of
/// an initializer are followed by a semicolon.
size_t findEnd(std::string_view text, size_t at) {
  std::string_view head = text.substr(at);
  for (const char *directive : {".version", ".target", ".address_size", ".file"})
    if (head.starts_with(directive)) return std::min(text.find('\n', at), text.size());
  bool isFunction = false, isValue = false;
  int depth = 0;
  for (; at < text.size(); ++at) {
    char c = text[at];
    if (c == '/' && text.substr(at, 2) == "//") at = std::min(text.find('\n', at), text.size() - 1);
    if (c == '"') at = std::min(text.find('"', at + 1), text.size() - 1);
    isFunction |= depth == 0 && (text.substr(at, 5) == ".func" || text.substr(at, 6) == ".entry");
    isValue |= c == '=' && depth == 0;
    depth += (c == '{') - (c == '}');
    if (depth == 0 && (c == ';' || (c == '}' && isFunction && !isValue))) return at + 1;
  }
  return at;
}

/// The name that a statement declares: the word before the parameters, the extent, the value or the end.
std::string_view findName(std::string_view text) {
  size_t at = 0;
  bool isFunction = text.find(".func") < text.find('{') || text.find(".entry") < text.find('{');
  if (size_t function = text.find(".func"); isFunction && function != text.npos) {
    at = function + 5;
    size_t first = text.find_first_not_of(" \t\n", at); // a result comes before the name
    if (first != text.npos && text[first] == '(') at = text.find(')', first) + 1;
  }
  size_t end = text.find_first_of("([=;{", at);
  if (end == text.npos) return "";
  while (end > at && !isWord(text[end - 1])) --end;
  size_t begin = end;
  while (begin > at && isWord(text[begin - 1])) --begin;
  return text.substr(begin, end - begin);
}

std::vector<Item> findItems(std::string_view text) {
  std::vector<Item> items;
  for (size_t at = 0; at < text.size();) {
    if (std::isspace(static_cast<unsigned char>(text[at])) || !text[at]) {
      ++at;
    } else if (text.substr(at, 2) == "//") {
      at = std::min(text.find('\n', at), text.size());
    } else {
      size_t end = findEnd(text, at);
      Item item{.text = text.substr(at, end - at), .name = {}, .uses = {}};
      if (!item.text.starts_with(".version") && !item.text.starts_with(".target") && !item.text.starts_with(".address_size"))
        item.name = findName(item.text);
      item.isEntry = item.text.substr(0, item.text.find('(')).find(".entry") != item.text.npos;
      items.push_back(std::move(item));
      at = end;
    }
  }
  return items;
}

void findUses(std::vector<Item> &items) {
  std::multimap<std::string_view, size_t> known;
  for (size_t i = 0; i < items.size(); ++i)
    if (!items[i].name.empty()) known.emplace(items[i].name, i);
  for (Item &item : items)
    for (size_t at = 0; at < item.text.size(); ++at) {
      size_t end = at;
      while (end < item.text.size() && isWord(item.text[end])) ++end;
      for (auto [found, last] = known.equal_range(item.text.substr(at, end - at)); found != last; ++found) item.uses.insert(found->second);
      at = end;
    }
}

void take(const std::vector<Item> &items, size_t item, std::set<size_t> &taken) {
  if (!taken.insert(item).second) return;
  for (size_t used : items[item].uses) take(items, used, taken);
}

} // namespace

std::vector<std::string> splitPtx(std::string_view text, size_t most) {
  std::vector<std::string> whole{std::string(text)};
  most = std::min(most, text.size() / kLeastBytes);
  // Tables of line numbers refer to all functions.
  if (most < 2 || text.find("\n.section") != text.npos || text.find("\n\t.section") != text.npos) return whole;
  std::vector<Item> items = findItems(text);
  findUses(items);
  std::vector<size_t> entries;
  for (size_t i = 0; i < items.size(); ++i)
    if (items[i].isEntry) entries.push_back(i);
  if (entries.size() < 2) return whole;
  std::ranges::sort(entries, std::greater(), [&](size_t i) { return std::pair(items[i].text.size(), i); });
  // The longest entries first, each to the shortest part.
  std::vector<std::set<size_t>> parts(std::min(most, entries.size()));
  std::vector<size_t> sizes(parts.size());
  for (size_t entry : entries) {
    size_t shortest = size_t(std::ranges::min_element(sizes) - sizes.begin());
    sizes[shortest] += items[entry].text.size();
    take(items, entry, parts[shortest]);
  }
  std::vector<std::string> texts;
  for (const std::set<size_t> &part : parts) {
    std::string &made = texts.emplace_back();
    for (size_t i = 0; i < items.size(); ++i)
      if (items[i].name.empty() || part.contains(i)) made.append(items[i].text).push_back('\n');
  }
  return texts;
}

} // namespace qd::cuda
