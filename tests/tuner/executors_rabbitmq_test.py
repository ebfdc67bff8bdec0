#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What every executor must do (executors_body.py), by Celery's workers and a real RabbitMQ."""
import unittest

import executors_celery_test
from servers import RabbitServers


class RabbitMqTest(executors_celery_test.CeleryTest):
    servers = RabbitServers
    there = r"amqp://guest:\*\*@127.0.0.1:\d+//, queue norn, workers that answer: 2"
    # executors_celery_test.py has them
    test_kills_change_nothing = None
    test_a_queue_that_doubles_what_it_has_and_then_forgets_all = None


if __name__ == "__main__":
    unittest.main()
