// serialize.cpp: an Artifact as bytes. Little endian, every list with its length first; reading checks every bound, because the bytes may
// come from a damaged file.
#include "artifact/artifact.h"

#include "support/error.h"

#include <cstring>
#include <type_traits>

namespace qd::artifact {

static constexpr uint32_t kMagic = 0x41445131; // "1QDA"
static constexpr uint32_t kVersion = 2;

namespace {

struct Writer {
  static constexpr bool kReads = false;
  std::vector<uint8_t> bytes;

  template <typename T>
    requires std::is_arithmetic_v<T> || std::is_enum_v<T>
  void field(const T &value) {
    const auto *raw = reinterpret_cast<const uint8_t *>(&value);
    bytes.insert(bytes.end(), raw, raw + sizeof(T));
  }
  void field(const std::string &text) { blob(text.data(), text.size()); }
  void field(const std::vector<uint8_t> &data) { blob(data.data(), data.size()); }
  void blob(const void *data, size_t size) {
    field(uint64_t(size));
    const auto *raw = static_cast<const uint8_t *>(data);
    bytes.insert(bytes.end(), raw, raw + size);
  }
  uint64_t length(uint64_t size) {
    field(size);
    return size;
  }
  template <typename T> void enumeration(const T &value, int) { field(value); }
};

struct Reader {
  static constexpr bool kReads = true;
  const uint8_t *at;
  const uint8_t *end;

  [[noreturn]] static void refuse() { throw support::Error(support::ErrorKind::Format, "the bytes are not a compiled kernel"); }
  void need(uint64_t size) {
    if (size > uint64_t(end - at)) refuse();
  }
  template <typename T>
    requires std::is_arithmetic_v<T> || std::is_enum_v<T>
  void field(T &value) {
    need(sizeof(T));
    if constexpr (std::is_same_v<T, bool>)
      value = *at & 1;
    else
      memcpy(&value, at, sizeof(T));
    at += sizeof(T);
  }
  template <typename Container> void blob(Container &data) {
    uint64_t size;
    field(size);
    need(size);
    data.assign(at, at + size);
    at += size;
  }
  void field(std::string &text) { blob(text); }
  void field(std::vector<uint8_t> &data) { blob(data); }
  uint64_t length(uint64_t) {
    uint64_t size;
    field(size);
    need(size); // every element takes a byte at least
    return size;
  }
  template <typename T> void enumeration(T &value, int count) {
    field(value);
    if (int(value) < 0 || int(value) >= count) refuse();
  }
};

// One description of the format serves both directions.
template <typename Stream, typename List, typename Each> void forEach(Stream &stream, List &list, Each each) {
  uint64_t size = stream.length(list.size());
  if constexpr (Stream::kReads) list.resize(size);
  for (auto &item : list) each(item);
}

template <typename Stream, typename T> void visitType(Stream &stream, T &type) {
  stream.enumeration(type.scalar, support::kScalarTypeCount);
  stream.field(type.rank);
  stream.field(type.rows);
  stream.field(type.columns);
}

template <typename Stream, typename T> void visitPath(Stream &stream, T &path) {
  stream.enumeration(path.root, 2);
  stream.field(path.argument);
  forEach(stream, path.steps, [&](auto &step) {
    stream.enumeration(step.kind, 4);
    stream.field(step.name);
    stream.field(step.index);
  });
}

template <typename Stream, typename T> void visitArtifact(Stream &stream, T &artifact) {
  stream.field(artifact.kernel);
  stream.field(artifact.backend);
  stream.field(artifact.binary);
  stream.field(artifact.argumentBytes);
  stream.field(artifact.scratchBytes);
  forEach(stream, artifact.inputs, [&](auto &input) {
    stream.enumeration(input.kind, 2);
    visitPath(stream, input.path);
    stream.field(input.name);
    stream.field(input.offset);
    visitType(stream, input.type);
    visitType(stream, input.layout.element);
    forEach(stream, input.layout.extents, [&](auto &extent) { stream.field(extent); });
    forEach(stream, input.layout.strides, [&](auto &stride) { stream.field(stride); });
    stream.field(input.layout.componentStride);
    stream.field(input.isField);
    stream.field(input.isWritten);
    stream.field(input.mayAlias);
  });
  forEach(stream, artifact.dependencies, [&](auto &dependency) {
    stream.enumeration(dependency.kind, 5);
    visitPath(stream, dependency.path);
    stream.field(dependency.digest);
  });
  forEach(stream, artifact.sites, [&](auto &site) {
    stream.enumeration(site.kind, 5);
    forEach(stream, site.pieces, [&](auto &piece) {
      stream.field(piece.text);
      stream.field(piece.isOperand);
      visitType(stream, piece.type);
    });
    forEach(stream, site.frames, [&](auto &frame) {
      stream.field(frame.file);
      stream.field(frame.function);
      stream.field(frame.line);
      stream.field(frame.column);
      stream.field(frame.endLine);
      stream.field(frame.endColumn);
    });
  });
  forEach(stream, artifact.results, [&](auto &result) {
    visitType(stream, result.type);
    stream.field(result.offset);
  });
  stream.field(artifact.resultBytes);
  stream.field(artifact.hasPrint);
  stream.field(artifact.cacheable);
}

} // namespace

std::vector<uint8_t> serialize(const Artifact &artifact) {
  Writer writer;
  writer.bytes.reserve(artifact.binary.size() + 4096);
  writer.field(kMagic);
  writer.field(kVersion);
  visitArtifact(writer, artifact);
  return std::move(writer.bytes);
}

Artifact deserialize(const uint8_t *bytes, size_t size) {
  Reader reader{bytes, bytes + size};
  uint32_t magic, version;
  reader.field(magic);
  reader.field(version);
  if (magic != kMagic || version != kVersion) Reader::refuse();
  Artifact artifact;
  visitArtifact(reader, artifact);
  if (reader.at != reader.end) Reader::refuse();
  return artifact;
}

} // namespace qd::artifact
