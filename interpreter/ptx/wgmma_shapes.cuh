// Every shape there is: ptx/wgmma.cuh has them all.
#pragma once

#include "ptx/wgmma.cuh"
