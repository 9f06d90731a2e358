// interleaved_accesses.cpp: finds containers that are stored to in parts, and read afterwards
//
// In:   the tasks and functions of a lowered kernel.
// Out:  the containers of which a load follows a store in the same iteration. Members of structs are containers with the same strides.
// Here: a masked store of lanes to a member delays loads of what it spans until it is done. Lanes of which a vector has few reach such
//       members one by one instead (memory.cpp).
#include "codegen/llvm/interleaved_accesses.h"

#include "ir/memory.h"

#include <map>

using namespace mlir;

namespace qd::codegen {

InterleavedAccesses::InterleavedAccesses(ModuleOp source) {
  source.walk([&](Operation *op) {
    if (isa<ir::TaskOp, ir::FuncOp>(op)) scan(op);
  });
}

void InterleavedAccesses::scan(Operation *function) {
  struct Member {
    int64_t firstStore = INT64_MAX, lastLoad = -1;
    SmallVector<ir::TensorArgumentOp, 4> containers;
  };
  std::map<std::vector<int64_t>, Member> members; // by strides and extents, or the offset of a packed array
  auto find = [&](ir::TensorArgumentOp container) -> Member & {
    auto type = cast<ir::TensorType>(container.getType());
    if (type.isPacked()) return members[{container.getOffset()}];
    std::vector<int64_t> key(type.getStrides());
    llvm::append_range(key, type.getExtents());
    return members[std::move(key)];
  };
  // Accesses in inner loops follow each other.
  int64_t position = 0;
  std::function<void(Region &, bool)> visit = [&](Region &region, bool isRepeated) {
    for (Operation &op : region.getOps()) {
      auto access = dyn_cast<ir::MemoryAccessOpInterface>(op);
      ir::TensorArgumentOp container = access ? ir::findContainer(access.getRef()) : nullptr;
      position += !isRepeated;
      if (container && access.writes()) find(container).firstStore = std::min(find(container).firstStore, position);
      if (container && isa<ir::LoadOp>(op)) find(container).lastLoad = std::max(find(container).lastLoad, position + isRepeated);
      if (auto argument = dyn_cast<ir::TensorArgumentOp>(op)) find(argument).containers.push_back(argument);
      auto loop = dyn_cast<ir::ForOp>(op);
      const bool repeats = isa<ir::WhileOp>(op) || (loop && !loop.getParallel());
      for (Region &inner : op.getRegions()) visit(inner, isRepeated || repeats);
    }
  };
  for (Region &region : function->getRegions()) visit(region, false);
  for (auto &[key, member] : members)
    if (member.firstStore < member.lastLoad) found.insert_range(member.containers);
}

} // namespace qd::codegen
