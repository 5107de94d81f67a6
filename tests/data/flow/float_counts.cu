extern "C" __global__ void f1(float*o,const float*x,float s){int n=(int)(s*3.0f+0.5f);float a=0;for(int i=0;i<n;i++)a+=x[i];*o=a;}
extern "C" __global__ void f2(float*o,const float*x,const float*v){float t=v[threadIdx.x];int n=(int)fminf(fmaxf(t,0.f),16.f);float a=0;for(int i=0;i<n;i++)a+=x[i];*o=a;}
extern "C" __global__ void f3(float*o,const float*x,float sigma){int r=(int)ceilf(3.f*sigma);float a=0;for(int i=-r;i<=r;i++)a+=x[i+r];*o=a;}
extern "C" __global__ void f4(float*o,const float*x,const float*v){float t=v[threadIdx.x];int n=(int)fminf(t,16.f);float a=0;for(int i=0;i<n;i++)a+=x[i];*o=a;}
extern "C" __global__ void f5(float*o,const float*x,float w,int b){int n=(int)(w/(float)b);float a=0;for(int i=0;i<n;i++)a+=x[i];*o=a;}
extern "C" __global__ void f6(float*o,const float*x,const float*roi,float sc,int h){float y0=roi[0]*sc,y1=roi[1]*sc;float bin=fmaxf(y1-y0,1.f)/7.f;int hs=(int)floorf(threadIdx.y*bin),he=(int)ceilf((threadIdx.y+1)*bin);hs=min(max(hs+(int)roundf(y0),0),h);he=min(max(he+(int)roundf(y0),0),h);float a=0;for(int i=hs;i<he;i++)a+=x[i];*o=a;}
extern "C" __global__ void f7(float*o,const float*x,double d){int n=(int)(d*2.0);float a=0;for(int i=0;i<n;i++)a+=x[i];*o=a;}
extern "C" __global__ void f8(float*o,const float*x,int n){int m=(int)sqrtf((float)n);float a=0;for(int i=0;i<m;i++)a+=x[i];*o=a;}
extern "C" __global__ void f9(float*o,const float*x,float s){int n=__float2int_rn(s);float a=0;for(int i=0;i<n;i++)a+=x[i];*o=a;}
extern "C" __global__ void f10(float*o,float t1,float dt){float a=0;for(float t=0;t<t1;t+=dt)a+=t*a;*o=a;}
extern "C" __global__ void f11(float*o,const float*x,const float*v){int n=(int)(__saturatef(v[0])*20.f);float a=0;for(int i=0;i<n;i++)a+=x[i];*o=a;}
extern "C" __global__ void f12(float*o,const float*x,int n){int m=(int)floorf(log2f((float)n));float a=0;for(int i=0;i<m;i++)a+=x[i];*o=a;}
extern "C" __global__ void f13(float*o,const float*x,float r,const float*c,int w){int x0=max((int)floorf(c[0]-r),0),x1=min((int)ceilf(c[0]+r),w-1);float a=0;for(int i=x0;i<=x1;i++)a+=x[i];*o=a;}
