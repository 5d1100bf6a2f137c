// Package podip gives each pod an address of its own out of a range whose
// addresses are all local to this machine already, as those of 127.0.0.0/8 are.
package podip

import (
	"fmt"
	"net"
	"net/netip"
	"sync"
)

// Allocator hands out addresses in turn, so that one which was released comes
// back only after all others.
type Allocator struct {
	prefix netip.Prefix

	mu     sync.Mutex
	next   netip.Addr
	claims map[netip.Addr]net.Listener
}

// New starts behind an offset, which keeps the nodes that share a range from
// all beginning with the same address.
func New(cidr string, offset uint32) (*Allocator, error) {
	prefix, err := netip.ParsePrefix(cidr)
	if err != nil {
		return nil, err
	}
	if !prefix.Addr().Is4() || prefix.Bits() > 30 {
		return nil, fmt.Errorf("%s: need an IPv4 range of at least four addresses", cidr)
	}
	prefix = prefix.Masked()
	return &Allocator{prefix: prefix, next: nth(prefix, offset), claims: map[netip.Addr]net.Listener{}}, nil
}

func nth(prefix netip.Prefix, n uint32) netip.Addr {
	base := prefix.Addr().As4()
	size := uint32(1) << (32 - prefix.Bits())
	sum := uint32(base[0])<<24 | uint32(base[1])<<16 | uint32(base[2])<<8 | uint32(base[3])
	sum += n % size
	return netip.AddrFrom4([4]byte{byte(sum >> 24), byte(sum >> 16), byte(sum >> 8), byte(sum)})
}

// Allocate claims an address for as long as this process lives.
func (a *Allocator) Allocate() (netip.Addr, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	size := uint32(1) << (32 - a.prefix.Bits())
	for range size {
		addr := a.next
		if a.next = addr.Next(); !a.prefix.Contains(a.next) {
			a.next = a.prefix.Addr()
		}
		if last := addr.As4()[3]; last == 0 || last == 255 {
			continue
		}
		if _, ours := a.claims[addr]; ours {
			continue
		}
		if claim, err := claim(addr); err == nil {
			a.claims[addr] = claim
			return addr, nil
		}
	}
	return netip.Addr{}, fmt.Errorf("no address left in %s", a.prefix)
}

// claim keeps other nodes on the machine from using the address: an abstract
// socket has exactly the reach of a loopback address, one network namespace,
// and vanishes with its process.
func claim(addr netip.Addr) (net.Listener, error) {
	return net.Listen("unix", "@beckon-pod-ip/"+addr.String())
}

// Release gives an address back. The zero address is allowed.
func (a *Allocator) Release(addr netip.Addr) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if claim, ok := a.claims[addr]; ok {
		claim.Close()
		delete(a.claims, addr)
	}
}
