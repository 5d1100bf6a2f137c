package podip

import (
	"net/netip"
	"testing"
)

func mustAllocate(t *testing.T, a *Allocator) netip.Addr {
	t.Helper()
	addr, err := a.Allocate()
	if err != nil {
		t.Fatal(err)
	}
	return addr
}

func TestReleasedAddressComesBackLast(t *testing.T) {
	a, err := New("127.71.9.0/30", 0)
	if err != nil {
		t.Fatal(err)
	}
	first := mustAllocate(t, a)
	a.Release(first)
	if second := mustAllocate(t, a); second == first {
		t.Errorf("%s came back at once", first)
	}
	mustAllocate(t, a)
	if third := mustAllocate(t, a); third != first {
		t.Errorf("got %s, want %s again", third, first)
	}
	if addr, err := a.Allocate(); err == nil {
		t.Errorf("got %s from an exhausted range", addr)
	}
}

func TestTwoNodesShareARange(t *testing.T) {
	a, _ := New("127.71.10.0/24", 7)
	b, _ := New("127.71.10.0/24", 7)
	one, two := mustAllocate(t, a), mustAllocate(t, b)
	if one.String() != "127.71.10.7" || two.String() != "127.71.10.8" {
		t.Errorf("got %s and %s", one, two)
	}
	a.Release(one)
	b.Release(two)
}

func TestNetworkAndBroadcastAreLeftOut(t *testing.T) {
	a, _ := New("127.71.11.0/24", 254)
	if got := []string{mustAllocate(t, a).String(), mustAllocate(t, a).String()}; got[0] != "127.71.11.254" || got[1] != "127.71.11.1" {
		t.Errorf("got %v", got)
	}
}

func TestBadRanges(t *testing.T) {
	for _, cidr := range []string{"", "127.0.0.1", "127.0.0.0/31", "::1/64"} {
		if _, err := New(cidr, 0); err == nil {
			t.Errorf("%q was accepted", cidr)
		}
	}
}
