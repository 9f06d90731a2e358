// device_library.cpp: maps a shared library from bytes: segments, tables, relocations, page protection
//
// In:   the bytes of a shared library that lld has linked.
// Out:  the addresses of its functions.
// Here: the system's loader would need a file, and looks at all libraries of the process. Only debuggers and profilers need its tables.
#include "backends/cpu/device_library.h"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <dlfcn.h>
#include <elf.h>
#include <sys/mman.h>
#include <unistd.h>

namespace qd::cpu {

#if defined(__x86_64__)
static constexpr uint32_t kRelative = R_X86_64_RELATIVE, kAddress = R_X86_64_64, kEntries[] = {R_X86_64_GLOB_DAT, R_X86_64_JUMP_SLOT};
#elif defined(__aarch64__)
static constexpr uint32_t kRelative = R_AARCH64_RELATIVE, kAddress = R_AARCH64_ABS64,
                          kEntries[] = {R_AARCH64_GLOB_DAT, R_AARCH64_JUMP_SLOT};
#endif

static uint64_t roundUp(uint64_t size) {
  auto page = uint64_t(sysconf(_SC_PAGESIZE));
  return (size + page - 1) / page * page;
}

/// The segments of this type; none if the bytes are no library of this kind, or are incomplete.
static std::vector<Elf64_Phdr> listSegments(const std::vector<uint8_t> &binary, uint32_t type) {
  Elf64_Ehdr header;
  if (binary.size() < sizeof header) return {};
  memcpy(&header, binary.data(), sizeof header);
  bool isLibrary = memcmp(header.e_ident, ELFMAG, SELFMAG) == 0 && header.e_ident[EI_CLASS] == ELFCLASS64 && header.e_type == ET_DYN &&
                   header.e_phentsize == sizeof(Elf64_Phdr);
  if (!isLibrary || header.e_phoff > binary.size() || header.e_phnum > (binary.size() - header.e_phoff) / sizeof(Elf64_Phdr)) return {};
  std::vector<Elf64_Phdr> all(header.e_phnum), found;
  memcpy(all.data(), binary.data() + header.e_phoff, all.size() * sizeof(Elf64_Phdr));
  constexpr uint64_t kMax = uint64_t(1) << 40;
  for (const Elf64_Phdr &segment : all) {
    if (segment.p_type != type) continue;
    bool isWithin = segment.p_offset <= binary.size() && segment.p_filesz <= binary.size() - segment.p_offset;
    if (!isWithin || segment.p_filesz > segment.p_memsz || segment.p_vaddr > kMax || segment.p_memsz > kMax) return {};
    found.push_back(segment);
  }
  return found;
}

std::unique_ptr<MappedLibrary> MappedLibrary::map(const std::vector<uint8_t> &binary) {
  uint64_t end = 0;
  for (const Elf64_Phdr &segment : listSegments(binary, PT_LOAD)) end = std::max(end, segment.p_vaddr + segment.p_memsz);
  errno = ENOEXEC;
  if (end == 0) return nullptr;
  void *memory = mmap(nullptr, roundUp(end), PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (memory == MAP_FAILED) return nullptr;
  std::unique_ptr<MappedLibrary> library(new MappedLibrary(static_cast<unsigned char *>(memory), roundUp(end)));
  errno = ENOEXEC;
  return library->readSegments(binary) && library->readTables() && library->protect(binary) ? std::move(library) : nullptr;
}

MappedLibrary::~MappedLibrary() { munmap(base, bytes); }

bool MappedLibrary::readSegments(const std::vector<uint8_t> &binary) {
  for (const Elf64_Phdr &segment : listSegments(binary, PT_LOAD))
    memcpy(base + segment.p_vaddr, binary.data() + segment.p_offset, segment.p_filesz);
  std::vector<Elf64_Phdr> found = listSegments(binary, PT_DYNAMIC);
  if (found.size() == 1) dynamic = found[0].p_vaddr;
  return dynamic != 0 && found[0].p_vaddr <= bytes && found[0].p_memsz <= bytes - found[0].p_vaddr;
}

bool MappedLibrary::readTables() {
  uint64_t values[DT_NUM] = {};
  for (auto *entry = reinterpret_cast<const Elf64_Dyn *>(base + dynamic); entry->d_tag != DT_NULL; ++entry)
    if (entry->d_tag > 0 && entry->d_tag < DT_NUM) values[entry->d_tag] = entry->d_un.d_val;
  symbols = values[DT_SYMTAB], names = values[DT_STRTAB], hash = values[DT_HASH];
  if (!symbols || !names || !hash || std::max({symbols, names, hash}) >= bytes || values[DT_INIT] || values[DT_INIT_ARRAY]) return false;
  return relocate(values[DT_RELA], values[DT_RELASZ]) && relocate(values[DT_JMPREL], values[DT_PLTRELSZ]);
}

const char *MappedLibrary::getName(uint32_t offset) const { return reinterpret_cast<const char *>(base + names + offset); }

bool MappedLibrary::relocate(uint64_t table, uint64_t size) const {
  if (table > bytes || size > bytes - table) return false;
  for (uint64_t at = table; at < table + size; at += sizeof(Elf64_Rela)) {
    auto entry = reinterpret_cast<const Elf64_Rela *>(base + at);
    uint32_t type = uint32_t(ELF64_R_TYPE(entry->r_info));
    if (entry->r_offset > bytes - sizeof(uint64_t)) return false;
    uint64_t value = reinterpret_cast<uint64_t>(base) + uint64_t(entry->r_addend);
    if (type == kAddress || std::find(std::begin(kEntries), std::end(kEntries), type) != std::end(kEntries)) {
      const Elf64_Sym &symbol = reinterpret_cast<const Elf64_Sym *>(base + symbols)[ELF64_R_SYM(entry->r_info)];
      void *address = symbol.st_shndx != SHN_UNDEF ? base + symbol.st_value : dlsym(RTLD_DEFAULT, getName(symbol.st_name));
      if (!address) return false;
      value = reinterpret_cast<uint64_t>(address) + (type == kAddress ? uint64_t(entry->r_addend) : 0);
    } else if (type != kRelative) {
      return false;
    }
    memcpy(base + entry->r_offset, &value, sizeof value);
  }
  return true;
}

bool MappedLibrary::protect(const std::vector<uint8_t> &binary) const {
  auto page = uint64_t(sysconf(_SC_PAGESIZE));
  uint64_t protectedUpTo = 0;
  for (const Elf64_Phdr &segment : listSegments(binary, PT_LOAD)) {
    uint64_t begin = segment.p_vaddr / page * page, end = roundUp(segment.p_vaddr + segment.p_memsz);
    // Segments are ordered by address, and none shares a page with another.
    bool isWritable = segment.p_flags & PF_W, isCode = segment.p_flags & PF_X;
    if (begin < protectedUpTo || (isWritable && isCode)) return false;
    int access = PROT_READ | (isWritable ? PROT_WRITE : 0) | (isCode ? PROT_EXEC : 0);
    if (mprotect(base + begin, end - begin, access) != 0) return false;
    protectedUpTo = end;
  }
  __builtin___clear_cache(reinterpret_cast<char *>(base), reinterpret_cast<char *>(base + bytes));
  return true;
}

void *MappedLibrary::find(const char *name) const {
  uint32_t count = reinterpret_cast<const uint32_t *>(base + hash)[1];
  for (uint32_t index = 1; index < count; ++index) {
    const Elf64_Sym &symbol = reinterpret_cast<const Elf64_Sym *>(base + symbols)[index];
    if (symbol.st_shndx != SHN_UNDEF && strcmp(getName(symbol.st_name), name) == 0) return base + symbol.st_value;
  }
  return nullptr;
}

} // namespace qd::cpu
