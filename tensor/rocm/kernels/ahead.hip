// Kernels that nearly every program uses, as src/work generates them. A test in src/ahead.rs writes this file.
PF_KERNEL(256) void pf_contract_e905a983d32694e3(const pf::Words<16> a) {
typedef pf::i32 I;
const I rows = (I)a.w[2], columns = (I)a.w[3];
for (I all = (I)pf::group(); all < (I)a.w[0]; all += (I)a.w[1]) {
I g = all;
const I tile_column = pf::split(g, a.w[4], a.w[5]);
const I tile_row = pf::split(g, a.w[6], a.w[7]);
const I piece = pf::split(g, a.w[8], a.w[9]);
const auto row = [&](I i) {
I pr = i;
const I pc0 = pr;
const I po0 = pc0 * (I)a.w[10];
return (I)(po0);
};
const auto column = [&](I i) {
I pr = i;
const I pc0 = pr;
const I po0 = pc0 * (I)a.w[11];
return (I)(po0);
};
const auto depth = [&](I i, I& l, I& r) {
l = (i);
r = (i);
};
const auto left = [&](I at) { return pf::get<pf::F32>(a.w[12], (I)0 + at); };
const auto right = [&](I at) { return pf::get<pf::F32>(a.w[13], (I)0 + at); };
const auto store = [&](I m, I n, float sum) {
const I o = (g * rows + m) * columns + n;
const float w0 = sum;
pf::put<pf::F32>(a.w[14], o, w0);
};
const I from = 0, to = (I)a.w[15];
pf::contract<pf::F32, 16, 16, true, true>(rows, columns, from, to, tile_row * 16, tile_column * 16, row, column, depth, left, right, store);
pf::barrier();
}
}
PF_KERNEL(256) void pf_contract_7f87ae196e5f86b4(const pf::Words<16> a) {
typedef pf::i32 I;
const I rows = (I)a.w[2], columns = (I)a.w[3];
for (I all = (I)pf::group(); all < (I)a.w[0]; all += (I)a.w[1]) {
I g = all;
const I tile_column = pf::split(g, a.w[4], a.w[5]);
const I tile_row = pf::split(g, a.w[6], a.w[7]);
const I piece = pf::split(g, a.w[8], a.w[9]);
const auto row = [&](I i) {
I pr = i;
const I pc0 = pr;
const I po0 = pc0 * (I)a.w[10];
return (I)(po0);
};
const auto column = [&](I i) {
return (I)((i));
};
const auto depth = [&](I i, I& l, I& r) {
I dr = i;
const I dc0 = dr;
const I do1 = dc0 * (I)a.w[11];
l = (i);
r = do1;
};
const auto left = [&](I at) { return pf::get<pf::F32>(a.w[12], (I)0 + at); };
const auto right = [&](I at) { return pf::get<pf::F32>(a.w[13], (I)0 + at); };
const auto store = [&](I m, I n, float sum) {
const I o = (g * rows + m) * columns + n;
const float w0 = sum;
pf::put<pf::F32>(a.w[14], o, w0);
};
const I from = 0, to = (I)a.w[15];
pf::contract<pf::F32, 16, 16, true, false>(rows, columns, from, to, tile_row * 16, tile_column * 16, row, column, depth, left, right, store);
pf::barrier();
}
}
PF_KERNEL(256) void pf_contract_75c63ce22ef95f60(const pf::Words<16> a) {
typedef pf::i32 I;
const I rows = (I)a.w[2], columns = (I)a.w[3];
for (I all = (I)pf::group(); all < (I)a.w[0]; all += (I)a.w[1]) {
I g = all;
const I tile_column = pf::split(g, a.w[4], a.w[5]);
const I tile_row = pf::split(g, a.w[6], a.w[7]);
const I piece = pf::split(g, a.w[8], a.w[9]);
const auto row = [&](I i) {
return (I)((i));
};
const auto column = [&](I i) {
return (I)((i));
};
const auto depth = [&](I i, I& l, I& r) {
I dr = i;
const I dc0 = dr;
const I do0 = dc0 * (I)a.w[10];
const I do1 = dc0 * (I)a.w[11];
l = do0;
r = do1;
};
const auto left = [&](I at) { return pf::get<pf::F32>(a.w[12], (I)0 + at); };
const auto right = [&](I at) { return pf::get<pf::F32>(a.w[13], (I)0 + at); };
const auto store = [&](I m, I n, float sum) {
const I o = (g * rows + m) * columns + n;
const float w0 = sum;
pf::put<pf::F32>(a.w[14], o, w0);
};
const I from = 0, to = (I)a.w[15];
pf::contract<pf::F32, 16, 16, false, false>(rows, columns, from, to, tile_row * 16, tile_column * 16, row, column, depth, left, right, store);
pf::barrier();
}
}
PF_KERNEL(256) void pf_contract_114db82a2e987f1d(const pf::Words<17> a) {
typedef pf::i32 I;
const I rows = (I)a.w[2], columns = (I)a.w[3];
for (I all = (I)pf::group(); all < (I)a.w[0]; all += (I)a.w[1]) {
I g = all;
const I tile_column = pf::split(g, a.w[4], a.w[5]);
const I tile_row = pf::split(g, a.w[6], a.w[7]);
const I piece = pf::split(g, a.w[8], a.w[9]);
const auto row = [&](I i) {
I pr = i;
const I pc0 = pr;
const I po0 = pc0 * (I)a.w[10];
return (I)(po0);
};
const auto column = [&](I i) {
I pr = i;
const I pc0 = pr;
const I po0 = pc0 * (I)a.w[11];
return (I)(po0);
};
const auto depth = [&](I i, I& l, I& r) {
l = (i);
r = (i);
};
const auto left = [&](I at) { return pf::get<pf::F32>(a.w[12], (I)0 + at); };
const auto right = [&](I at) { return pf::get<pf::F32>(a.w[13], (I)0 + at); };
const auto store = [&](I m, I n, float sum) {
const I o = (g * rows + m) * columns + n;
const float w0 = sum;
const float w1 = pf::get<pf::F32>(a.w[14], (I)0 + (I)0 + (n));
const float w2 = pf::add(w0, w1);
pf::put<pf::F32>(a.w[15], o, w2);
};
const I from = 0, to = (I)a.w[16];
pf::contract<pf::F32, 16, 16, true, true>(rows, columns, from, to, tile_row * 16, tile_column * 16, row, column, depth, left, right, store);
pf::barrier();
}
}
PF_KERNEL(256) void pf_contract_338d4c3740ff489a(const pf::Words<18> a) {
typedef pf::i32 I;
const I rows = (I)a.w[2], columns = (I)a.w[3];
for (I all = (I)pf::group(); all < (I)a.w[0]; all += (I)a.w[1]) {
I g = all;
const I tile_column = pf::split(g, a.w[4], a.w[5]);
const I tile_row = pf::split(g, a.w[6], a.w[7]);
const I piece = pf::split(g, a.w[8], a.w[9]);
const auto row = [&](I i) {
I pr = i;
const I pc0 = pr;
const I po0 = pc0 * (I)a.w[10];
return (I)(po0);
};
const auto column = [&](I i) {
I pr = i;
const I pc0 = pr;
const I po0 = pc0 * (I)a.w[11];
return (I)(po0);
};
const auto depth = [&](I i, I& l, I& r) {
l = (i);
r = (i);
};
const auto left = [&](I at) { return pf::get<pf::F32>(a.w[12], (I)0 + at); };
const auto right = [&](I at) { return pf::get<pf::F32>(a.w[13], (I)0 + at); };
const auto store = [&](I m, I n, float sum) {
const I o = (g * rows + m) * columns + n;
const float w0 = sum;
const float w1 = pf::get<pf::F32>(a.w[14], (I)0 + (I)0 + (n));
const float w2 = pf::add(w0, w1);
const float w3 = pf::bits<float>((pf::u32)a.w[15]);
const float w4 = pf::max(w2, w3);
pf::put<pf::F32>(a.w[16], o, w4);
};
const I from = 0, to = (I)a.w[17];
pf::contract<pf::F32, 16, 16, true, true>(rows, columns, from, to, tile_row * 16, tile_column * 16, row, column, depth, left, right, store);
pf::barrier();
}
}
PF_KERNEL(256) void pf_contract_0488fe1552449f5b(const pf::Words<16> a) {
typedef pf::i32 I;
const I rows = (I)a.w[2], columns = (I)a.w[3];
for (I all = (I)pf::group(); all < (I)a.w[0]; all += (I)a.w[1]) {
I g = all;
const I tile_column = pf::split(g, a.w[4], a.w[5]);
const I tile_row = pf::split(g, a.w[6], a.w[7]);
const I piece = pf::split(g, a.w[8], a.w[9]);
const auto row = [&](I i) {
I pr = i;
const I pc0 = pr;
const I po0 = pc0 * (I)a.w[10];
return (I)(po0);
};
const auto column = [&](I i) {
I pr = i;
const I pc0 = pr;
const I po0 = pc0 * (I)a.w[11];
return (I)(po0);
};
const auto depth = [&](I i, I& l, I& r) {
l = (i);
r = (i);
};
const auto left = [&](I at) { return pf::get<pf::F32>(a.w[12], (I)0 + at); };
const auto right = [&](I at) { return pf::get<pf::F32>(a.w[13], (I)0 + at); };
const auto store = [&](I m, I n, float sum) {
const I o = (g * rows + m) * columns + n;
const float w0 = sum;
pf::put<pf::F32>(a.w[14], o, w0);
};
const I from = 0, to = (I)a.w[15];
pf::contract<pf::F32, 64, 64, true, true>(rows, columns, from, to, tile_row * 64, tile_column * 64, row, column, depth, left, right, store);
pf::barrier();
}
}
PF_KERNEL(256) void pf_contract_81dc027743b6fe2a(const pf::Words<16> a) {
typedef pf::i32 I;
const I rows = (I)a.w[2], columns = (I)a.w[3];
for (I all = (I)pf::group(); all < (I)a.w[0]; all += (I)a.w[1]) {
I g = all;
const I tile_column = pf::split(g, a.w[4], a.w[5]);
const I tile_row = pf::split(g, a.w[6], a.w[7]);
const I piece = pf::split(g, a.w[8], a.w[9]);
const auto row = [&](I i) {
I pr = i;
const I pc0 = pr;
const I po0 = pc0 * (I)a.w[10];
return (I)(po0);
};
const auto column = [&](I i) {
return (I)((i));
};
const auto depth = [&](I i, I& l, I& r) {
I dr = i;
const I dc0 = dr;
const I do1 = dc0 * (I)a.w[11];
l = (i);
r = do1;
};
const auto left = [&](I at) { return pf::get<pf::F32>(a.w[12], (I)0 + at); };
const auto right = [&](I at) { return pf::get<pf::F32>(a.w[13], (I)0 + at); };
const auto store = [&](I m, I n, float sum) {
const I o = (g * rows + m) * columns + n;
const float w0 = sum;
pf::put<pf::F32>(a.w[14], o, w0);
};
const I from = 0, to = (I)a.w[15];
pf::contract<pf::F32, 64, 64, true, false>(rows, columns, from, to, tile_row * 64, tile_column * 64, row, column, depth, left, right, store);
pf::barrier();
}
}
PF_KERNEL(256) void pf_contract_3da71e8b1b7c9f41(const pf::Words<16> a) {
typedef pf::i32 I;
const I rows = (I)a.w[2], columns = (I)a.w[3];
for (I all = (I)pf::group(); all < (I)a.w[0]; all += (I)a.w[1]) {
I g = all;
const I tile_column = pf::split(g, a.w[4], a.w[5]);
const I tile_row = pf::split(g, a.w[6], a.w[7]);
const I piece = pf::split(g, a.w[8], a.w[9]);
const auto row = [&](I i) {
return (I)((i));
};
const auto column = [&](I i) {
return (I)((i));
};
const auto depth = [&](I i, I& l, I& r) {
I dr = i;
const I dc0 = dr;
const I do0 = dc0 * (I)a.w[10];
const I do1 = dc0 * (I)a.w[11];
l = do0;
r = do1;
};
const auto left = [&](I at) { return pf::get<pf::F32>(a.w[12], (I)0 + at); };
const auto right = [&](I at) { return pf::get<pf::F32>(a.w[13], (I)0 + at); };
const auto store = [&](I m, I n, float sum) {
const I o = (g * rows + m) * columns + n;
const float w0 = sum;
pf::put<pf::F32>(a.w[14], o, w0);
};
const I from = 0, to = (I)a.w[15];
pf::contract<pf::F32, 64, 64, false, false>(rows, columns, from, to, tile_row * 64, tile_column * 64, row, column, depth, left, right, store);
pf::barrier();
}
}
PF_KERNEL(256) void pf_contract_6732839c02d6619f(const pf::Words<17> a) {
typedef pf::i32 I;
const I rows = (I)a.w[2], columns = (I)a.w[3];
for (I all = (I)pf::group(); all < (I)a.w[0]; all += (I)a.w[1]) {
I g = all;
const I tile_column = pf::split(g, a.w[4], a.w[5]);
const I tile_row = pf::split(g, a.w[6], a.w[7]);
const I piece = pf::split(g, a.w[8], a.w[9]);
const auto row = [&](I i) {
I pr = i;
const I pc0 = pr;
const I po0 = pc0 * (I)a.w[10];
return (I)(po0);
};
const auto column = [&](I i) {
I pr = i;
const I pc0 = pr;
const I po0 = pc0 * (I)a.w[11];
return (I)(po0);
};
const auto depth = [&](I i, I& l, I& r) {
l = (i);
r = (i);
};
const auto left = [&](I at) { return pf::get<pf::F32>(a.w[12], (I)0 + at); };
const auto right = [&](I at) { return pf::get<pf::F32>(a.w[13], (I)0 + at); };
const auto store = [&](I m, I n, float sum) {
const I o = (g * rows + m) * columns + n;
const float w0 = sum;
const float w1 = pf::get<pf::F32>(a.w[14], (I)0 + (I)0 + (n));
const float w2 = pf::add(w0, w1);
pf::put<pf::F32>(a.w[15], o, w2);
};
const I from = 0, to = (I)a.w[16];
pf::contract<pf::F32, 64, 64, true, true>(rows, columns, from, to, tile_row * 64, tile_column * 64, row, column, depth, left, right, store);
pf::barrier();
}
}
PF_KERNEL(256) void pf_contract_54c45ba3b6416a71(const pf::Words<18> a) {
typedef pf::i32 I;
const I rows = (I)a.w[2], columns = (I)a.w[3];
for (I all = (I)pf::group(); all < (I)a.w[0]; all += (I)a.w[1]) {
I g = all;
const I tile_column = pf::split(g, a.w[4], a.w[5]);
const I tile_row = pf::split(g, a.w[6], a.w[7]);
const I piece = pf::split(g, a.w[8], a.w[9]);
const auto row = [&](I i) {
I pr = i;
const I pc0 = pr;
const I po0 = pc0 * (I)a.w[10];
return (I)(po0);
};
const auto column = [&](I i) {
I pr = i;
const I pc0 = pr;
const I po0 = pc0 * (I)a.w[11];
return (I)(po0);
};
const auto depth = [&](I i, I& l, I& r) {
l = (i);
r = (i);
};
const auto left = [&](I at) { return pf::get<pf::F32>(a.w[12], (I)0 + at); };
const auto right = [&](I at) { return pf::get<pf::F32>(a.w[13], (I)0 + at); };
const auto store = [&](I m, I n, float sum) {
const I o = (g * rows + m) * columns + n;
const float w0 = sum;
const float w1 = pf::get<pf::F32>(a.w[14], (I)0 + (I)0 + (n));
const float w2 = pf::add(w0, w1);
const float w3 = pf::bits<float>((pf::u32)a.w[15]);
const float w4 = pf::max(w2, w3);
pf::put<pf::F32>(a.w[16], o, w4);
};
const I from = 0, to = (I)a.w[17];
pf::contract<pf::F32, 64, 64, true, true>(rows, columns, from, to, tile_row * 64, tile_column * 64, row, column, depth, left, right, store);
pf::barrier();
}
}
PF_KERNEL(256) void pf_map_642cf114f39e5a08(const pf::Words<5> a) {
typedef pf::i32 I;
for (I i = (I)pf::group() * 256 + (I)pf::lane(); i < (I)a.w[0]; i += (I)a.w[1]) {
const float v0 = pf::get<pf::F32>(a.w[2], (i));
const float v1 = pf::bits<float>((pf::u32)a.w[3]);
const float v2 = pf::max(v0, v1);
pf::put<pf::F32>(a.w[4], i, v2);
}
}
PF_KERNEL(256) void pf_map_01a9ab0ad042c1bf(const pf::Words<4> a) {
typedef pf::i32 I;
for (I i = (I)pf::group() * 256 + (I)pf::lane(); i < (I)a.w[0]; i += (I)a.w[1]) {
const float v0 = pf::get<pf::F32>(a.w[2], (i));
pf::put<pf::F32>(a.w[3], i, v0);
}
}
PF_KERNEL(256) void pf_map_f7af8af203ab1c0e(const pf::Words<5> a) {
typedef pf::i32 I;
for (I i = (I)pf::group() * 256 + (I)pf::lane(); i < (I)a.w[0]; i += (I)a.w[1]) {
const float v0 = pf::get<pf::F32>(a.w[2], (i));
const float v1 = pf::get<pf::F32>(a.w[3], (i));
const float v2 = pf::add(v0, v1);
pf::put<pf::F32>(a.w[4], i, v2);
}
}
PF_KERNEL(256) void pf_map_92ab99bbcaf24bd8(const pf::Words<5> a) {
typedef pf::i32 I;
for (I i = (I)pf::group() * 256 + (I)pf::lane(); i < (I)a.w[0]; i += (I)a.w[1]) {
const float v0 = pf::get<pf::F32>(a.w[2], (i));
const float v1 = pf::get<pf::F32>(a.w[3], (i));
const float v2 = pf::sub(v0, v1);
pf::put<pf::F32>(a.w[4], i, v2);
}
}
PF_KERNEL(256) void pf_map_285b66ab4bd163e9(const pf::Words<5> a) {
typedef pf::i32 I;
for (I i = (I)pf::group() * 256 + (I)pf::lane(); i < (I)a.w[0]; i += (I)a.w[1]) {
const float v0 = pf::get<pf::F32>(a.w[2], (i));
const float v1 = pf::get<pf::F32>(a.w[3], (i));
const float v2 = pf::mul(v0, v1);
pf::put<pf::F32>(a.w[4], i, v2);
}
}
PF_KERNEL(256) void pf_map_db8dae0802004116(const pf::Words<5> a) {
typedef pf::i32 I;
for (I i = (I)pf::group() * 256 + (I)pf::lane(); i < (I)a.w[0]; i += (I)a.w[1]) {
const float v0 = pf::get<pf::F32>(a.w[2], (i));
const float v1 = pf::get<pf::F32>(a.w[3], (i));
const float v2 = pf::div(v0, v1);
pf::put<pf::F32>(a.w[4], i, v2);
}
}
PF_KERNEL(64) void pf_softmax_876cd0b8f79cf8eb(const pf::Words<7> a) {
typedef pf::i32 I;
for (I o = (I)pf::group(); o < (I)a.w[0]; o += (I)a.w[1]) {
const I length = (I)a.w[2];
I kr = o;
const I kc0 = kr;
const I ko0 = kc0 * (I)a.w[3];
const I ko1 = kc0 * (I)a.w[4];
const auto load = [&](I i) {
return pf::get<pf::F32>(a.w[5], ko0 + (i));
};
const auto store = [&](I i, float y) {
pf::put<pf::F32>(a.w[6], ko1 + (i), y);
};
pf::softmax<float, 64, false>(length, load, store);
}
}
PF_KERNEL(64) void pf_softmax_f506adec83bc237d(const pf::Words<7> a) {
typedef pf::i32 I;
for (I o = (I)pf::group(); o < (I)a.w[0]; o += (I)a.w[1]) {
const I length = (I)a.w[2];
I kr = o;
const I kc0 = kr;
const I ko0 = kc0 * (I)a.w[3];
const I ko1 = kc0 * (I)a.w[4];
const auto load = [&](I i) {
return pf::get<pf::F32>(a.w[5], ko0 + (i));
};
const auto store = [&](I i, float y) {
pf::put<pf::F32>(a.w[6], ko1 + (i), y);
};
pf::softmax<float, 64, true>(length, load, store);
}
}
PF_KERNEL(64) void pf_reduce_7b20f9562f098ff5(const pf::Words<8> a) {
typedef pf::i32 I;
for (I g = (I)pf::group(); g < (I)a.w[0] * (I)a.w[2]; g += (I)a.w[4]) {
const I o = g;
I kr = o;
const I kc0 = kr;
const I ko0 = kc0 * (I)a.w[5];
const auto load = [&](I r) {
const float v0 = pf::get<pf::F32>(a.w[6], ko0 + (r));
return v0;
};
const float all = pf::by_group<pf::Sum, float, 64>((I)0, (I)a.w[1], load);
if (pf::lane() == 0) {
const float w0 = all;
pf::put<pf::F32>(a.w[7], o, w0);
}
}
}
PF_KERNEL(256) void pf_softmax_18ce8835f147115d(const pf::Words<7> a) {
typedef pf::i32 I;
for (I o = (I)pf::group(); o < (I)a.w[0]; o += (I)a.w[1]) {
const I length = (I)a.w[2];
I kr = o;
const I kc0 = kr;
const I ko0 = kc0 * (I)a.w[3];
const I ko1 = kc0 * (I)a.w[4];
const auto load = [&](I i) {
return pf::get<pf::F32>(a.w[5], ko0 + (i));
};
const auto store = [&](I i, float y) {
pf::put<pf::F32>(a.w[6], ko1 + (i), y);
};
pf::softmax<float, 256, false>(length, load, store);
}
}
PF_KERNEL(256) void pf_softmax_0aea50a108a59813(const pf::Words<7> a) {
typedef pf::i32 I;
for (I o = (I)pf::group(); o < (I)a.w[0]; o += (I)a.w[1]) {
const I length = (I)a.w[2];
I kr = o;
const I kc0 = kr;
const I ko0 = kc0 * (I)a.w[3];
const I ko1 = kc0 * (I)a.w[4];
const auto load = [&](I i) {
return pf::get<pf::F32>(a.w[5], ko0 + (i));
};
const auto store = [&](I i, float y) {
pf::put<pf::F32>(a.w[6], ko1 + (i), y);
};
pf::softmax<float, 256, true>(length, load, store);
}
}
PF_KERNEL(256) void pf_reduce_3609534ab82f7614(const pf::Words<8> a) {
typedef pf::i32 I;
for (I g = (I)pf::group(); g < (I)a.w[0] * (I)a.w[2]; g += (I)a.w[4]) {
const I o = g;
I kr = o;
const I kc0 = kr;
const I ko0 = kc0 * (I)a.w[5];
const auto load = [&](I r) {
const float v0 = pf::get<pf::F32>(a.w[6], ko0 + (r));
return v0;
};
const float all = pf::by_group<pf::Sum, float, 256>((I)0, (I)a.w[1], load);
if (pf::lane() == 0) {
const float w0 = all;
pf::put<pf::F32>(a.w[7], o, w0);
}
}
}
PF_KERNEL(256) void pf_random_5d1c798258c9ba5f(const pf::Words<6> a) {
typedef pf::i32 I;
for (I b = (I)pf::group() * 256 + (I)pf::lane(); b < (I)a.w[0]; b += (I)a.w[1]) {
const pf::Four four = pf::philox(a.w[3], a.w[4] + (pf::u64)b);
if (b * 4 + 0 < (I)a.w[2]) pf::put<pf::F32>(a.w[5], b * 4 + 0, pf::uniform_f32(four.w[0]));
if (b * 4 + 1 < (I)a.w[2]) pf::put<pf::F32>(a.w[5], b * 4 + 1, pf::uniform_f32(four.w[1]));
if (b * 4 + 2 < (I)a.w[2]) pf::put<pf::F32>(a.w[5], b * 4 + 2, pf::uniform_f32(four.w[2]));
if (b * 4 + 3 < (I)a.w[2]) pf::put<pf::F32>(a.w[5], b * 4 + 3, pf::uniform_f32(four.w[3]));
}
}
PF_KERNEL(256) void pf_random_ac0d38b1c5173ed2(const pf::Words<6> a) {
typedef pf::i32 I;
for (I b = (I)pf::group() * 256 + (I)pf::lane(); b < (I)a.w[0]; b += (I)a.w[1]) {
const pf::Four four = pf::philox(a.w[3], a.w[4] + (pf::u64)b);
const pf::Two one = pf::normal_pair(four.w[0], four.w[1]), two = pf::normal_pair(four.w[2], four.w[3]);
if (b * 4 + 0 < (I)a.w[2]) pf::put<pf::F32>(a.w[5], b * 4 + 0, (float)one.x);
if (b * 4 + 1 < (I)a.w[2]) pf::put<pf::F32>(a.w[5], b * 4 + 1, (float)one.y);
if (b * 4 + 2 < (I)a.w[2]) pf::put<pf::F32>(a.w[5], b * 4 + 2, (float)two.x);
if (b * 4 + 3 < (I)a.w[2]) pf::put<pf::F32>(a.w[5], b * 4 + 3, (float)two.y);
}
}
