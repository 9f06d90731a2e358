// outlined_regions.cpp: turns marked regions of a function into functions
//
// First the blocks move. Then every value used outside of the function that defines it is spilled to the frame: it is stored at its
// definition and loaded where a region begins. Locals move to the frame, too; a region works on copies of them, which LLVM turns into
// values. Each step walks the code once.
#include "codegen/llvm/cpu/outlined_regions.h"

#include "llvm/ADT/MapVector.h"
#include "llvm/ADT/SetVector.h"
#include "llvm/IR/IRBuilder.h"
#include "llvm/IR/InstIterator.h"
#include "llvm/IR/Module.h"

namespace qd::codegen {
namespace {

/// Copies the attributes of `from` that hold for each of its regions.
void copyAttributes(const llvm::Function &from, llvm::Function &to) {
  for (llvm::Attribute attribute : from.getAttributes().getFnAttrs())
    if (attribute.isStringAttribute()) to.addFnAttr(attribute);
}

/// Whether the local is only loaded and stored as a whole.
bool isPlain(const llvm::AllocaInst &local) {
  return llvm::all_of(local.uses(), [&](const llvm::Use &use) {
    if (auto *load = llvm::dyn_cast<llvm::LoadInst>(use.getUser())) return load->getType() == local.getAllocatedType();
    auto *store = llvm::dyn_cast<llvm::StoreInst>(use.getUser());
    return store && use.getOperandNo() == 1 && store->getValueOperand()->getType() == local.getAllocatedType();
  });
}

/// The local whose component address an instruction of the entry block computes; null for other instructions.
llvm::AllocaInst *findLocal(llvm::Instruction *value) {
  auto *address = llvm::dyn_cast_or_null<llvm::GetElementPtrInst>(value);
  return address && address->hasAllConstantIndices() ? llvm::dyn_cast<llvm::AllocaInst>(address->getPointerOperand()) : nullptr;
}

class Outliner {
public:
  explicit Outliner(llvm::Function &whole) : whole(whole), ctx(whole.getContext()) {
    frame = llvm::IRBuilder<>(&*whole.getEntryBlock().begin()).CreateAlloca(llvm::StructType::get(ctx), nullptr, "frame");
    functions.push_back(&whole);
  }

  void cut(llvm::ArrayRef<OutlinedRegion> regions) {
    for (const OutlinedRegion &region : regions) move(region);
    // Code does not move any more from here on.
    findCrossings();
    for (auto &[value, users] : crossings) {
      auto *local = llvm::dyn_cast<llvm::AllocaInst>(value);
      if (local && users.size() == 1)
        local->moveBefore(users[0]->getEntryBlock().begin());
      else
        members.insert({value, unsigned(members.size())});
    }
    layOutFrame();
    for (auto &[value, member] : members) {
      auto *local = llvm::dyn_cast<llvm::AllocaInst>(value);
      local ? spillLocal(*local, member) : spillValue(*value, member);
    }
  }

private:
  //--- Code ---

  void move(const OutlinedRegion &region) {
    llvm::Function *caller = region.call->getParent();
    auto first = std::next(region.call->getIterator()), end = std::next(region.last->getIterator());
    auto *type = llvm::FunctionType::get(llvm::Type::getInt32Ty(ctx), {frame->getType()}, false);
    auto *function = llvm::Function::Create(type, llvm::GlobalValue::InternalLinkage, whole.getName() + "_outlined", *whole.getParent());
    copyAttributes(whole, *function);
    function->addParamAttr(0, llvm::Attribute::NoAlias);
    functions.push_back(function);
    llvm::BranchInst::Create(&*first, llvm::BasicBlock::Create(ctx, "entry", function));
    function->splice(function->end(), caller, first, end);
    llvm::SetVector<llvm::BasicBlock *> exits = returnAtExits(*function);

    region.call->getTerminator()->eraseFromParent();
    llvm::IRBuilder<> builder(region.call);
    llvm::Value *exit = builder.CreateCall(function, {frame});
    if (exits.empty()) return void(builder.CreateUnreachable());
    llvm::SwitchInst *selectExit = builder.CreateSwitch(exit, exits[0], unsigned(exits.size()));
    for (unsigned index = 1; index < exits.size(); ++index) selectExit->addCase(builder.getInt32(index), exits[index]);
  }

  /// Replaces branches out of the function by returns, and lists their targets.
  llvm::SetVector<llvm::BasicBlock *> returnAtExits(llvm::Function &function) {
    llvm::SetVector<llvm::BasicBlock *> exits;
    llvm::SmallVector<llvm::BasicBlock *> returns;
    auto leave = [&](llvm::BasicBlock *target) {
      if (exits.insert(target)) {
        returns.push_back(llvm::BasicBlock::Create(ctx, "exit"));
        llvm::ReturnInst::Create(ctx, llvm::ConstantInt::get(function.getReturnType(), exits.size() - 1), returns.back());
      }
      return returns[size_t(llvm::find(exits, target) - exits.begin())];
    };
    for (llvm::BasicBlock &block : function) {
      llvm::Instruction *end = block.getTerminator();
      if (llvm::isa<llvm::ReturnInst>(end)) {
        llvm::BasicBlock *target = getReturn(end->getNumOperands() ? end->getOperand(0) : nullptr);
        end->eraseFromParent();
        end = llvm::BranchInst::Create(target, &block);
      }
      for (unsigned index = 0; index < end->getNumSuccessors(); ++index)
        if (llvm::BasicBlock *target = end->getSuccessor(index); target->getParent() != &function) end->setSuccessor(index, leave(target));
    }
    for (llvm::BasicBlock *block : returns) block->insertInto(&function);
    return exits;
  }

  /// The block of the whole function that returns this value, always a constant.
  llvm::BasicBlock *getReturn(llvm::Value *value) {
    llvm::BasicBlock *&block = returnBlocks[value];
    if (!block) {
      block = llvm::BasicBlock::Create(ctx, "leave", &whole);
      llvm::ReturnInst::Create(ctx, value, block);
    }
    return block;
  }

  //--- The frame ---

  llvm::Value *getFrame(llvm::Function &function) { return &function == &whole ? static_cast<llvm::Value *>(frame) : function.getArg(0); }
  llvm::Value *getMember(llvm::IRBuilder<> &builder, unsigned member) {
    return builder.CreateStructGEP(frame->getAllocatedType(), getFrame(*builder.GetInsertBlock()->getParent()), member);
  }

  void findCrossings() {
    for (llvm::Function *function : functions) {
      llvm::DenseMap<llvm::Instruction *, llvm::Instruction *> components;
      for (llvm::Instruction &instruction : llvm::instructions(function))
        for (llvm::Use &use : instruction.operands()) {
          auto *argument = llvm::dyn_cast<llvm::Argument>(use);
          auto *definition = llvm::dyn_cast<llvm::Instruction>(use);
          if (definition == frame) {
            callers.insert(function);
            use.set(getFrame(*function));
          } else if (definition && definition->getFunction() != function && findLocal(definition)) {
            llvm::Instruction *&component = components[definition];
            if (!component) {
              component = definition->clone();
              component->insertBefore(function->getEntryBlock().getTerminator()->getIterator());
            }
            use.set(component);
            crossings[findLocal(definition)].insert(function);
          } else if ((argument && argument->getParent() != function) || (definition && definition->getFunction() != function)) {
            crossings[use].insert(function);
          }
        }
    }
    for (auto &[value, users] : crossings)
      if (auto *local = llvm::dyn_cast<llvm::AllocaInst>(value))
        for (llvm::User *user : llvm::make_early_inc_range(local->users())) {
          auto *instruction = llvm::cast<llvm::Instruction>(user);
          // Regions have their own copies of component addresses now.
          if (findLocal(instruction) && instruction->use_empty())
            instruction->eraseFromParent();
          else
            users.insert(instruction->getFunction());
        }
  }

  void layOutFrame() {
    llvm::SmallVector<llvm::Type *> types;
    for (auto &[value, member] : members) {
      auto *local = llvm::dyn_cast<llvm::AllocaInst>(value);
      types.push_back(local ? local->getAllocatedType() : value->getType());
    }
    llvm::StructType *type = llvm::StructType::get(ctx, types);
    frame->setAllocatedType(type);
    frame->setAlignment(whole.getDataLayout().getABITypeAlign(type));
  }

  void spillLocal(llvm::AllocaInst &local, unsigned member) {
    llvm::Type *type = local.getAllocatedType();
    bool mayCopy = isPlain(local);
    llvm::DenseMap<llvm::Function *, llvm::Value *> places;
    for (llvm::Function *function : crossings[&local]) {
      llvm::BasicBlock &entry = function->getEntryBlock();
      llvm::IRBuilder<> builder(&*std::next(entry.begin(), function == &whole ? 1 : 0));
      llvm::Value *&place = places[function] = getMember(builder, member);
      // Regions that are called from here use the frame directly.
      if (!mayCopy || callers.contains(function)) continue;
      llvm::Value *shared = place;
      place = builder.CreateAlloca(type);
      builder.CreateStore(builder.CreateLoad(type, shared), place);
      for (llvm::BasicBlock &block : *function)
        if (auto *end = llvm::dyn_cast<llvm::ReturnInst>(block.getTerminator())) {
          builder.SetInsertPoint(end);
          builder.CreateStore(builder.CreateLoad(type, place), shared);
        }
    }
    for (llvm::Use &use : llvm::make_early_inc_range(local.uses()))
      use.set(places[llvm::cast<llvm::Instruction>(use.getUser())->getFunction()]);
    local.eraseFromParent();
  }

  void spillValue(llvm::Value &value, unsigned member) {
    auto *definition = llvm::dyn_cast<llvm::Instruction>(&value);
    llvm::Function *home = definition ? definition->getFunction() : &whole;
    llvm::SmallVector<llvm::Use *> uses;
    for (llvm::Use &use : value.uses())
      if (llvm::cast<llvm::Instruction>(use.getUser())->getFunction() != home) uses.push_back(&use);
    llvm::IRBuilder<> builder(ctx);
    if (definition)
      builder.SetInsertPoint(*definition->getInsertionPointAfterDef());
    else
      builder.SetInsertPoint(std::next(frame->getIterator()));
    builder.CreateStore(&value, getMember(builder, member));

    llvm::DenseMap<llvm::Function *, llvm::Value *> loaded;
    for (llvm::Use *use : uses) {
      auto *user = llvm::cast<llvm::Instruction>(use->getUser());
      auto load = [&](llvm::Instruction *before) {
        builder.SetInsertPoint(before);
        return builder.CreateLoad(value.getType(), getMember(builder, member));
      };
      // Functions that call regions may get values from these, so they load at each use.
      if (callers.contains(user->getFunction())) {
        auto *phi = llvm::dyn_cast<llvm::PHINode>(user);
        use->set(load(phi ? phi->getIncomingBlock(*use)->getTerminator() : user));
        continue;
      }
      llvm::Value *&known = loaded[user->getFunction()];
      if (!known) known = load(user->getFunction()->getEntryBlock().getTerminator());
      use->set(known);
    }
  }

  llvm::Function &whole;
  llvm::LLVMContext &ctx;
  llvm::AllocaInst *frame;
  llvm::SmallVector<llvm::Function *> functions; ///< the whole function and the regions
  llvm::DenseSet<llvm::Function *> callers;      ///< functions that call regions
  llvm::DenseMap<llvm::Value *, llvm::BasicBlock *> returnBlocks;
  llvm::MapVector<llvm::Value *, llvm::SetVector<llvm::Function *>>
      crossings; ///< value → functions that use it; for locals all, for other values those outside of its function
  llvm::MapVector<llvm::Value *, unsigned> members; ///< index in the frame
};

} // namespace

void outlineRegions(llvm::Function &function, llvm::ArrayRef<OutlinedRegion> regions) { Outliner(function).cut(regions); }

} // namespace qd::codegen
