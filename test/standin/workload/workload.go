// Package workload plays a program that computes on cards.
package workload

import (
	"context"
	"log"
	"time"

	"github.com/topsops/gcu-operator/test/standin/gcu"
)

// Run uses all cards it was given until ctx is done, and then needs some time to end.
// Without a card it ends at once with gcu.ErrNoCard.
func Run(ctx context.Context, node gcu.Node, end time.Duration) error {
	cards, err := node.Open()
	if err != nil {
		return err
	}
	defer cards.Close()
	log.Printf("uses %d cards, driver %s", len(cards), node.Version())
	<-ctx.Done()
	log.Printf("ends in %s", end)
	<-time.After(end)
	return nil
}
