from argparse import ArgumentParser

from lockfast.integrations.django import Locked
from shop.models import Bill


class Command(Locked):
    lock = "bill:{tenant}"
    ttl = 60
    at_least = 30  # more than the machines' clocks differ

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("tenant")

    def handle(self, **options: object) -> None:
        Bill.objects.create(tenant=options["tenant"], token=self.lease.token)
