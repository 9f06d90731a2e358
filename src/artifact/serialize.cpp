// serialize.cpp: writes an Artifact as bytes, and reads it
//
// In:   an Artifact, or bytes from the disk or from the compiler's module.
// Out:  the other of the two. Little endian; lists begin with their length, structs are their members in order. Reading checks every bound,
// because the bytes may come from a damaged file.
#include "artifact/artifact.h"

#include "support/error.h"

#include <cstring>
#include <type_traits>

// Structs are decomposed with `auto &[...members]`, which clang supports in every version of the language.
#pragma clang diagnostic ignored "-Wc++26-extensions"

namespace qd::artifact {

static constexpr uint32_t kMagic = 0x41445131; // "1QDA"
static constexpr uint32_t kVersion = 24;

namespace {

struct Writer {
  std::vector<uint8_t> bytes;

  void copy(const void *data, size_t size) {
    const auto *raw = static_cast<const uint8_t *>(data);
    bytes.insert(bytes.end(), raw, raw + size);
  }
  template <typename List> void visitLength(const List &list) {
    uint64_t size = list.size();
    copy(&size, sizeof size);
  }
};

struct Reader {
  const uint8_t *at;
  const uint8_t *end;

  [[noreturn]] static void refuse() { throw support::Error(support::ErrorKind::Format, "the bytes are not a compiled kernel"); }
  void copy(void *data, size_t size) {
    if (size > size_t(end - at)) refuse();
    if (size) memcpy(data, at, size);
    at += size;
  }
  template <typename List> void visitLength(List &list) {
    uint64_t size;
    copy(&size, sizeof size);
    if (size > uint64_t(end - at)) refuse(); // every element takes at least a byte
    list.resize(size);
  }
};

template <typename T> constexpr bool kIsPlain = std::is_arithmetic_v<T> || std::is_enum_v<T>;

/// Writes or reads `value`: one description of the format for both directions.
template <typename Stream, typename T> void visit(Stream &stream, T &value) {
  if constexpr (kIsPlain<std::remove_const_t<T>>) {
    stream.copy(&value, sizeof value);
  } else if constexpr (requires { value.size(); }) {
    stream.visitLength(value);
    if constexpr (kIsPlain<typename T::value_type>)
      stream.copy(value.data(), value.size() * sizeof(typename T::value_type));
    else
      for (auto &item : value) visit(stream, item);
  } else {
    auto &[... members] = value;
    (visit(stream, members), ...);
  }
}

} // namespace

std::vector<uint8_t> serialize(const Artifact &artifact) {
  Writer writer;
  writer.bytes.reserve(artifact.binary.size() + 4096);
  visit(writer, kMagic);
  visit(writer, kVersion);
  visit(writer, artifact);
  return std::move(writer.bytes);
}

Artifact deserialize(const uint8_t *bytes, size_t size) {
  Reader reader{bytes, bytes + size};
  uint32_t magic, version;
  visit(reader, magic);
  visit(reader, version);
  if (magic != kMagic || version != kVersion) Reader::refuse();
  Artifact artifact;
  visit(reader, artifact);
  if (reader.at != reader.end) Reader::refuse();
  return artifact;
}

} // namespace qd::artifact
