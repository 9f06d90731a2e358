// target.h: what a backend that runs grids supplies to the emitter
//
// The emitter of grids is shared: it decides which threads do what. A GridTarget emits the instructions that differ between devices:
// numbers of threads, barriers, exchanges, marks of entries. Properties that are data, not code, are in passes/target_traits.h.
#pragma once

#include "llvm/ADT/ArrayRef.h"
#include "llvm/ADT/StringRef.h"
#include "llvm/IR/IRBuilder.h"

namespace qd::codegen {

/// LLVM's address spaces. By default there is one for everything, as on the processor.
struct AddressSpaces {
  unsigned global = 0; ///< memory of the device: containers, and what belongs to a launch
  unsigned shared = 0; ///< memory of a block
  unsigned local = 0;  ///< locals of a thread
  unsigned launch = 0; ///< the QdGpuLaunch that an entry gets
  /// Space 0 addresses all memory, and any pointer can be cast to it. If not, each access uses a pointer of its own space; a local that a
  /// routine of the device library reads is cast to space 0 all the same, and the target inlines the call.
  bool hasGeneric = true;
};

/// Which threads wait for each other, or see each other's writes.
enum class ThreadScope { Subgroup, Block, Device };

/// A number of a thread or of its grid.
enum class ThreadNumber { Thread, BlockSize, Block, BlockCount };

class GridTarget {
public:
  using Builder = llvm::IRBuilderBase;
  virtual ~GridTarget() = default;

  virtual AddressSpaces getAddressSpaces() const = 0;
  /// LLVM's name of the scope of atomic operations that all threads of the device see in one order.
  virtual llvm::StringRef getDeviceScope() const = 0;

  /// f32 can become f64, as the host reads them in reports, also where programs have no f64.
  virtual bool widensReports() const { return false; }

  //--- Entries ---
  /// Marks a function as an entry, whose only parameter points to a QdGpuLaunch and `bytes` of memory in all.
  virtual void markEntry(llvm::Function &entry, uint64_t bytes) const = 0;
  virtual void setBlockSize(llvm::Function &entry, unsigned threads) const = 0;
  /// The entry waits for many loads at a time, which need registers: `threads` in flight on a multiprocessor suffice.
  virtual void preferRegisters(llvm::Function &, unsigned /*blockSize*/, unsigned /*threads*/) const {}
  /// At most so many registers for a thread.
  virtual void limitRegisters(llvm::Function &, unsigned /*registers*/) const {}
  /// Bytes of shared memory of a block for which a launch may ask; 0: what is in the binary is all.
  virtual unsigned getMaxDynamicBytes() const { return 0; }
  /// One instruction loads or stores 16 bytes.
  virtual bool hasWideAccesses() const { return true; }
  /// The driver gives an entry few registers so that as many threads run as possible, also if the grid has less.
  virtual bool savesRegisters() const { return false; }

  //--- Threads ---
  virtual llvm::Value *getNumber(Builder &at, ThreadNumber number) const = 0; ///< i32
  /// Waits for all threads of the subgroup or block, whose writes are visible afterwards.
  virtual void synchronize(Builder &at, ThreadScope scope) const = 0;
  /// Of the threads of a mask. By default they run in lockstep.
  virtual void synchronizeSome(Builder &at, llvm::Value * /*threads*/) const { fence(at, ThreadScope::Block); }
  virtual void fence(Builder &at, ThreadScope scope) const = 0; ///< block or device
  /// The i32 of another lane of the subgroup. `threads`: mask of the threads that take part, among them the calling one; null: all.
  virtual llvm::Value *shuffle(Builder &at, llvm::Value *word, llvm::Value *lane, llvm::Value *threads) const = 0;
  /// The i32 of the thread `distance` lanes after this one; any value if there is no such lane. All threads take part.
  virtual llvm::Value *shuffleDown(Builder &at, llvm::Value *word, unsigned distance) const = 0;
  /// The words of all threads of the subgroup combined by one instruction; null: there is none.
  virtual llvm::Value *combine(Builder &, llvm::AtomicRMWInst::BinOp, llvm::Value * /*word*/) const { return nullptr; }
  /// Masks have one bit for each thread of the subgroup: those that vote for it (`threads` as in `shuffle`), that run this code, that come
  /// first.
  virtual llvm::Value *ballot(Builder &at, llvm::Value *vote, llvm::Value *threads) const = 0;
  virtual llvm::Value *getActiveThreads(Builder &at) const = 0;
  virtual llvm::Value *getEarlierThreads(Builder &at) const = 0;
  /// Turns the store to shared memory before the insertion point, of a loaded value, into copies that threads need not wait for.
  virtual void copyAsync(Builder &) const {}
  virtual void waitForCopies(Builder &) const {}
  /// Keeps LLVM from moving the computation of an i32 or i64 to its uses.
  virtual llvm::Value *pin(Builder &, llvm::Value *word) const { return word; }

  //--- Only with the trait of the same name ---
  /// hasEarlyLaunch: lets the next task begin, then waits for the end of the previous one.
  virtual void launchEarly(Builder &) const { llvm_unreachable("no early launch"); }
  /// hasVectorAtomics: adds 2 or 4 f32 to aligned neighbors in global memory.
  virtual void addVector(Builder &, llvm::Value * /*pointer*/, llvm::ArrayRef<llvm::Value *> /*parts*/) const {
    llvm_unreachable("no vector atomics");
  }
};

} // namespace qd::codegen
